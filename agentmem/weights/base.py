"""The manifest of a weight update, its phases, and what a transport must do.

An update runs through four phases, each with a deadline of its own:

`announce`  the manifest arrives; version, transport, names and shapes are checked; nothing is loaded.
`transfer`  the tensors are staged beside the serving model; generation goes on.
`verify`    generation is held between two steps; the staged tensors are loaded and the log-probabilities of
            the probe are compared with the learner's. A mismatch puts the old weights back.
`activate`  the version is committed, caches of the old version are gone, generation resumes.

An update is idempotent by version: a repeated one is acknowledged without being applied. After any failure
the old version serves and the next update works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

from agentmem.vision.picture import Picture

if TYPE_CHECKING:
    import torch


class Phase(StrEnum):
    """The phases of an update, in their order."""

    ANNOUNCE = "announce"
    TRANSFER = "transfer"
    VERIFY = "verify"
    ACTIVATE = "activate"


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that each phase may take; all finite."""

    announce_s: float = 10.0
    transfer_s: float = 120.0
    verify_s: float = 60.0
    activate_s: float = 10.0

    def of(self, phase: Phase) -> float:
        return float(getattr(self, f"{phase.value}_s"))

    @property
    def total_s(self) -> float:
        return self.announce_s + self.transfer_s + self.verify_s + self.activate_s


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """Fixed sequences and the learner's log-probabilities of them, under the weights that are sent.

    `logprobs[i][j]` is the natural-log probability of token `j + 1` of sequence `i` given tokens `0..j`, at
    temperature 1: one fewer than there are ids.
    """

    sequences: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]
    tolerance: float = 1e-3
    """Largest allowed absolute difference. 1e-3 suits fp32; bf16 engines need about 0.1."""
    pictures: tuple[Picture | None, ...] = ()
    """The sequences' pictures, for a model that sees (its vision tower's weights are compared, too); else
    none."""

    def __post_init__(self) -> None:
        if self.pictures and len(self.pictures) != len(self.sequences):
            raise ValueError(f"probe: {len(self.pictures)} pictures for {len(self.sequences)} sequences")
        if len(self.sequences) != len(self.logprobs):
            raise ValueError(f"probe: {len(self.sequences)} sequences, {len(self.logprobs)} log-prob rows")
        for ids, row in zip(self.sequences, self.logprobs, strict=True):
            if len(ids) < 2 or len(row) != len(ids) - 1:
                raise ValueError(
                    f"probe: {len(ids)} ids need {len(ids) - 1} log-probs (>= 1), got {len(row)}"
                )

    def mismatch(self, served: Sequence[Sequence[float]]) -> str | None:
        """What is wrong with the log-probabilities that an engine serves; None if nothing."""
        if [len(row) for row in served] != [len(row) for row in self.logprobs]:
            return "the engine scored a different number of probe tokens"
        worst = 0.0
        for expected, got in zip(self.logprobs, served, strict=True):
            for e, g in zip(expected, got, strict=True):
                gap = abs(e - g)
                # NaN compares false with everything, so it is asked for by itself.
                if gap != gap:
                    return "a probe log-probability is NaN"
                worst = max(worst, gap)
        if worst > self.tolerance:
            return f"probe log-probabilities differ by {worst:.3g} (tolerance {self.tolerance:.3g})"
        return None


class TensorMeta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tensor of the update in checkpoint (Hugging Face) naming; dtype without `torch.`."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """An adapter-only update: the base weights stay, a LoRA adapter of this version is added."""

    path: str
    """Directory in PEFT's format (adapter_config.json, adapter_model.safetensors)."""
    rank: int


class WeightUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest. Small: it travels as a message, the tensors by the transport."""

    version: int
    transport: str
    """`files`, `nccl` or `ipc`: which receiver stages the tensors."""
    location: str = ""
    """What the transport needs to find them: a directory for `files`."""
    tensors: tuple[TensorMeta, ...] = ()
    """All tensors in the order in which they are sent."""
    buckets: tuple[int, ...] = ()
    """How many tensors each bucket holds (collective transports)."""
    probe: Probe | None = None
    """None only where there is nothing to compare with; the engine then can't detect a transfer that
    was acknowledged without being applied."""
    adapter: Adapter | None = None
    deadlines: Deadlines = Deadlines()


class UpdateReport(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's answer to an update that succeeded."""

    engine: str
    version: int
    applied: bool
    """False: this version was already served, nothing was done."""
    transfer_s: float = 0.0
    paused_s: float = 0.0
    """How long generation was held."""


class Staged(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors that have arrived and aren't served yet.

    Exactly one of: `tensors` in this process; `path` of a complete snapshot that each worker reads itself
    (models sharded over several worker processes); `in_workers`: the number under which the workers hold
    them.
    """

    tensors: Mapping[str, torch.Tensor] | None = None
    path: str | None = None
    in_workers: int | None = None


class Receiver(Protocol):
    """The engine's side of a transport. Called on a thread of its own, may block; never touches the model."""

    def receive(self, update: WeightUpdate) -> Staged: ...


def buckets_of(tensors: Sequence[TensorMeta], limit_bytes: int) -> tuple[int, ...]:
    """Cut the tensors, in their order, into buckets of at most `limit_bytes` (a larger tensor gets its own).

    Sizes come from the declared full shapes, never from `numel()` of a local tensor: under ZeRO-3 a
    parameter that isn't gathered is empty.
    """
    if limit_bytes < 1:
        raise ValueError(f"bucket limit is {limit_bytes} bytes: must be >= 1")
    counts: list[int] = []
    used = limit_bytes + 1
    for meta in tensors:
        size = tensor_bytes(meta)
        if used + size > limit_bytes:
            counts.append(0)
            used = 0
        counts[-1] += 1
        used += size
    return tuple(counts)


_ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "int64": 8,
    "int32": 4,
    "uint8": 1,
    "int8": 1,
}


def tensor_bytes(meta: TensorMeta) -> int:
    """Bytes of a tensor on the wire."""
    size = _ITEM_BYTES.get(meta.dtype)
    if size is None:
        raise ValueError(f"tensor {meta.name}: dtype {meta.dtype} can't be sent")
    for extent in meta.shape:
        size *= extent
    return size


def describe(tensors: Mapping[str, torch.Tensor]) -> tuple[TensorMeta, ...]:
    """The manifest entries of materialised tensors."""
    return tuple(
        TensorMeta(name=name, shape=tuple(t.shape), dtype=str(t.dtype).removeprefix("torch."))
        for name, t in tensors.items()
    )
