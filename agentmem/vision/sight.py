"""Embeddings of a batch with its pictures in their places: the only part of the room that computes with
torch.

Engine and learner both embed by this function, so what the one samples is what the other trains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from agentmem.vision.inputs import Pictures


def embedded(
    model: Any, ids: Tensor, *, patches: Tensor, grids: Tensor, places: Tensor, features: Tensor
) -> Tensor:
    """[B, L, H] of ids [B, L]; gradients reach the vision tower. See `inputs.Pictures` for the others."""
    text: Tensor = model.get_input_embeddings()(ids)
    made = tower(model, patches, grids).to(text.dtype)
    flat = text.reshape(-1, text.shape[-1]).index_copy(0, places, made.index_select(0, features))
    return flat.view_as(text)


def tower(model: Any, patches: Tensor, grids: Tensor) -> Tensor:
    """What the vision tower makes of patches: a row for each token of each picture."""
    import torch

    made: Tensor = torch.cat(tuple(model.get_image_features(patches, grids, return_dict=True).pooler_output))
    return made


def on_device(pictures: Pictures, device: Any) -> dict[str, Tensor]:
    """The arrays as tensors there, by the names of `embedded`'s arguments."""
    import torch

    # A copy: what comes out of an object store is read-only.
    return {name: torch.tensor(array).to(device) for name, array in pictures.arrays().items()}
