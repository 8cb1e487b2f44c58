"""The trained weights as whole tensors in Hugging Face naming, and what a model folder needs beside them.

Under ZeRO-3 each rank holds a part of every parameter. Parameters are gathered in buckets, in one order, by
all ranks; only rank 0 copies them to host memory. Gathering ends before anything is sent: no rank is inside a
collective while rank 0 waits for an engine.

With LoRA the adapters are merged into the tensors on the way (the model itself stays as it is).
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from agentmem.failures import ModelError
from agentmem.vision.directory import SEEING, file_name
from agentmem.weights import TensorMeta
from learner.zero import real_size

if TYPE_CHECKING:
    from learner.model import PolicyModel
    from learner.token_rows import TokenRows
    from learner.zero import ZeroEngine

BUCKET_ELEMENTS = 64 * 1024 * 1024
"""Elements gathered at once: 256 MiB in float32."""

TOKENIZER_FILES = (
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "*.model",
    "words.json",
    "*processor_config.json",
)
"""What a tokenizer, or a processor of pictures, may be made of; copied from the model's own folder."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A tensor to export: the parameters it is made of, which must be whole, and how."""

    name: str
    parameters: tuple[nn.Parameter, ...]
    make: Callable[[], Tensor]
    shape: tuple[int, ...]
    dtype: torch.dtype


def units(policy: PolicyModel) -> list[Unit]:
    """Everything to export, in a fixed order. Tied parameters appear once, under their first name."""
    base = base_model(policy)
    rows = policy.rows
    adapters = {name: module for name, module in base.named_modules() if hasattr(module, "base_layer")}
    out: list[Unit] = []
    for name, parameter in base.named_parameters():
        owner, _, leaf = name.rpartition(".")
        if ".lora_" in name or "lora_magnitude" in name:
            continue
        if owner.endswith(".base_layer"):
            owner = owner.removesuffix(".base_layer")
            module = adapters[owner]
            if leaf == "weight":
                parts = (parameter, *(p for n, p in module.named_parameters() if n.startswith("lora_")))
                out.append(_unit(f"{owner}.weight", parameter, parts, _merged(module, parameter)))
                continue
            name = f"{owner}.{leaf}"
        if rows is not None and (delta := rows.of(parameter)) is not None:
            out.append(_unit(name, parameter, (parameter, delta), _with_rows(rows, parameter)))
            continue
        out.append(_unit(name, parameter, (parameter,)))
    known = {u.name for u in out}
    persistent = base.state_dict(keep_vars=True)
    tied = {id(p) for _, p in base.named_parameters()}
    for name, buffer in persistent.items():
        if name not in known and id(buffer) not in tied and not isinstance(buffer, nn.Parameter):
            out.append(_unit(name, buffer, ()))
    if base.config.model_type in SEEING:  # engines and files know its tensors by other names than modules do
        out = [dataclasses.replace(unit, name=file_name(unit.name)) for unit in out]
    return out


def base_model(policy: PolicyModel) -> Any:
    """The Hugging Face model under LoRA, or the model itself."""
    model = policy.model
    return model.get_base_model() if hasattr(model, "peft_config") else model


@torch.no_grad()
def gather(engine: ZeroEngine, wanted: Sequence[Unit], *, keep: bool) -> dict[str, Tensor]:
    """All ranks together: whole tensors on the host where `keep`, nothing elsewhere."""
    out: dict[str, Tensor] = {}
    for bucket in buckets(wanted, real_size):
        with engine.gathered(_unique(p for unit in bucket for p in unit.parameters)):
            if keep:
                for unit in bucket:
                    out[unit.name] = unit.make().detach().to("cpu", copy=True).contiguous()
    return out


def buckets(
    wanted: Sequence[Unit], size_of: Callable[[nn.Parameter], int], limit: int = BUCKET_ELEMENTS
) -> Iterator[list[Unit]]:
    """Cut units, in order, into buckets of at most `limit` elements (a larger unit gets its own)."""
    bucket: list[Unit] = []
    used = 0
    for unit in wanted:
        size = sum(size_of(p) for p in unit.parameters)
        if bucket and used + size > limit:
            yield bucket
            bucket, used = [], 0
        bucket.append(unit)
        used += size
    if bucket:
        yield bucket


class GatheredSource:
    """The weights bucket by bucket, for collective transports: `gather` is called by all ranks alike."""

    def __init__(self, policy: PolicyModel, engine: ZeroEngine, *, keep: bool) -> None:
        self._units = {unit.name: unit for unit in units(policy)}
        self._engine, self._keep = engine, keep

    def metas(self) -> tuple[TensorMeta, ...]:
        """Names, real shapes and dtypes of all tensors, in the order in which they are sent."""
        return tuple(
            TensorMeta(name=u.name, shape=u.shape, dtype=str(u.dtype).removeprefix("torch."))
            for u in self._units.values()
        )

    @torch.no_grad()
    def gather(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Whole tensors on this rank's device where they are kept, nothing elsewhere.

        They are copies: when they are sent, no parameter is gathered any more.
        """
        wanted = [self._units[name] for name in names]
        with self._engine.gathered(_unique(p for unit in wanted for p in unit.parameters)):
            if not self._keep:
                return {}
            return {unit.name: unit.make().detach().clone() for unit in wanted}


def adapter_units(policy: PolicyModel) -> list[Unit]:
    """The adapter alone, in PEFT's file naming."""
    return [
        _unit(name.replace(".default.", "."), parameter, (parameter,))
        for name, parameter in policy.model.named_parameters()
        if ".lora_" in name
    ]


def write_adapter(policy: PolicyModel, tensors: dict[str, Tensor], folder: Path) -> None:
    """A folder in PEFT's format."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    policy.model.peft_config["default"].save_pretrained(str(folder))
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})


def write_model(policy: PolicyModel, tensors: dict[str, Tensor], source: str, folder: Path) -> None:
    """A model folder in Hugging Face format: config, weights, and the tokenizer of `source`."""
    from safetensors.torch import save_file

    base = base_model(policy)
    folder.mkdir(parents=True, exist_ok=True)
    base.config.architectures = [type(base).__name__]
    base.config.save_pretrained(str(folder))
    if getattr(base, "generation_config", None) is not None:
        base.generation_config.save_pretrained(str(folder))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    copy_tokenizer(source, folder)


def copy_tokenizer(source: str, folder: Path) -> None:
    """From a folder: its tokenizer files, bit for bit. From a name: what the hub's tokenizer saves."""
    if Path(source).is_dir():
        for pattern in TOKENIZER_FILES:
            for file in Path(source).glob(pattern):
                if file.is_file():
                    shutil.copy2(file, folder / file.name)
        return
    from transformers import AutoTokenizer

    try:
        AutoTokenizer.from_pretrained(source).save_pretrained(str(folder))
    except (OSError, ValueError) as error:
        raise ModelError(f"the tokenizer of {source} can't be copied: {error}") from error


def _unit(
    name: str,
    tensor: Tensor,
    parameters: tuple[nn.Parameter, ...],
    make: Callable[[], Tensor] | None = None,
) -> Unit:
    """`tensor` gives shape and dtype, and is itself what is exported unless `make` says otherwise."""
    shape = tuple(getattr(tensor, "ds_shape", tensor.shape))
    return Unit(name, parameters, make or (lambda: tensor), shape, tensor.dtype)


def _merged(module: Any, weight: Tensor) -> Callable[[], Tensor]:
    return lambda: (
        weight + sum(module.get_delta_weight(adapter).to(weight.dtype) for adapter in module.active_adapters)
    )


def _with_rows(rows: TokenRows, weight: nn.Parameter) -> Callable[[], Tensor]:
    return lambda: rows.merged(weight)


def _unique(parameters: Iterator[nn.Parameter]) -> list[nn.Parameter]:
    seen: dict[int, nn.Parameter] = {}
    for parameter in parameters:
        seen.setdefault(id(parameter), parameter)
    return list(seen.values())
