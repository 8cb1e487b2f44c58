"""Which plan suits a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from learner.batching.plan import Strategy

if TYPE_CHECKING:
    import torch


def choose_strategy(wanted: str, device: torch.device) -> Strategy:
    """`auto`: packed where variable-length attention runs (GPU, flash-attention), else sorted by length."""
    if wanted == "packed" or (wanted == "auto" and has_flash_attention(device)):
        return "packed"
    return "sorted"


def has_flash_attention(device: torch.device) -> bool:
    """Whether transformers can use it here; without it a packed row gets a block-diagonal mask."""
    if device.type != "cuda":
        return False
    from transformers.utils import is_flash_attn_2_available

    return bool(is_flash_attn_2_available())
