"""How weights leave a learner rank: gathered on all ranks, sent by rank 0, with the probe that verifies them.

All ranks call the same methods alike; `acknowledge` is rank 0's alone.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from agentmem.chaos import hold
from agentmem.failures import ConfigError
from agentmem.vision.inputs import padded
from agentmem.vision.picture import Picture
from agentmem.vision.reader import PictureReader
from agentmem.vision.sight import on_device
from agentmem.weights import Deadlines, Probe, WeightUpdate
from agentmem.weights.base import buckets_of
from agentmem.weights.collective import BUCKET_BYTES, Wire, send_buckets
from learner import export
from learner.forward import Processing, token_logprobs

if TYPE_CHECKING:
    from learner.model import PolicyModel
    from learner.settings import RankSettings
    from learner.zero import ZeroEngine


class Outlet:
    """Of one rank."""

    def __init__(
        self,
        settings: RankSettings,
        rank: int,
        model: PolicyModel,
        engine: ZeroEngine,
        device: torch.device,
    ) -> None:
        self._settings, self._rank = settings, rank
        self._model, self._engine, self._device = model, engine, device
        self._reader = PictureReader.of(settings.model)
        self._sender: Any = None

    def publish(self, version: int, engines: Sequence[str] = ()) -> WeightUpdate | None:
        """Write the weights for the engines; the manifest on rank 0, None elsewhere.

        All ranks gather; then rank 0 alone writes, while no other rank waits for it.
        """
        lora = self._settings.lora
        adapter_only = lora is not None and lora.push == "adapter"
        wanted = export.adapter_units(self._model) if adapter_only else export.units(self._model)
        tensors = export.gather(self._engine, wanted, keep=self._rank == 0)
        probe = self.probe()
        if self._rank != 0:
            return None
        hold("learner.publish")
        sender = self._files_sender()
        deadlines = self._deadlines()
        if lora is not None and adapter_only:
            with tempfile.TemporaryDirectory() as folder:
                export.write_adapter(self._model, tensors, Path(folder))
                update: WeightUpdate = sender.publish_adapter(
                    version, Path(folder), rank=lora.rank, engines=engines, probe=probe, deadlines=deadlines
                )
                return update
        update = sender.publish(version, tensors, engines=engines, probe=probe, deadlines=deadlines)
        return update

    def manifest(self, version: int, transport: str, location: str) -> WeightUpdate:
        """What a collective transport announces before `send`; all ranks call it, with the same result."""
        metas = export.GatheredSource(self._model, self._engine, keep=False).metas()
        return WeightUpdate(
            version=version,
            transport=transport,
            location=location,
            tensors=metas,
            buckets=buckets_of(metas, BUCKET_BYTES),
            probe=self.probe(),
            deadlines=self._deadlines(),
        )

    def send(self, update: WeightUpdate, open_wire: Callable[[WeightUpdate], Wire]) -> None:
        """Gather on all ranks and send from rank 0, bucket by bucket, while the engines receive."""
        source = export.GatheredSource(self._model, self._engine, keep=self._rank == 0)
        send_buckets(update, source, open_wire(update) if self._rank == 0 else None)

    def acknowledge(self, version: int, engine: str) -> None:
        """Rank 0: an engine serves this version, so older snapshots needn't wait for it."""
        self._files_sender().acknowledge(version, engine)

    @torch.no_grad()
    def probe(self) -> Probe:
        """Fixed sequences and their log-probs at temperature 1 (all ranks take part)."""
        sequences = self._settings.probe or fixed_probe(
            int(self._model.model.config.get_text_config().vocab_size)
        )
        images: tuple[Picture | None, ...] = ()
        if self._reader is not None:
            picture = self._reader.probe
            sequences = (*sequences, (*self._reader.placed(picture), *sequences[0]))
            images = (*[None] * (len(sequences) - 1), picture)
        rows: list[tuple[float, ...]] = []
        nothing = torch.zeros(0, dtype=torch.long, device=self._device)
        for ids, image in zip(sequences, images or [None] * len(sequences), strict=True):
            inputs = torch.tensor([ids[:-1]], device=self._device)
            index = torch.arange(len(ids) - 1, device=self._device)
            where, seen = self._seen(ids[:-1], image)
            logits, _ = self._model(inputs, index, where, nothing, **seen)
            targets = torch.tensor(ids[1:], device=self._device)
            logp = token_logprobs(logits, targets, Processing())
            rows.append(tuple(logp.clamp(max=0.0).tolist()))
        return Probe(
            sequences=tuple(sequences),
            logprobs=tuple(rows),
            tolerance=self._settings.weights.verify_tolerance,
            pictures=images,
        )

    # ------------------------------------------------------------------ inside

    def _seen(
        self, ids: Sequence[int], image: Picture | None
    ) -> tuple[torch.Tensor | None, dict[str, torch.Tensor]]:
        """Positions and pictures of one sequence, as the model takes them."""
        if self._reader is None or image is None:
            return None, {}
        positions, pictures = padded(self._reader, [(ids, image)], len(ids))
        assert pictures is not None
        return torch.tensor(positions, device=self._device), on_device(pictures, self._device)

    def _deadlines(self) -> Deadlines:
        limit = self._settings.weights.phase_timeout_s
        return Deadlines(announce_s=limit, transfer_s=limit, verify_s=limit, activate_s=limit)

    def _files_sender(self) -> Any:
        if self._sender is None:
            from agentmem.weights.files import FilesSender

            if not self._settings.weights_dir:
                raise ConfigError("publishing weights needs a directory (weights_dir)")
            self._sender = FilesSender(self._settings.weights_dir)
        return self._sender


def fixed_probe(vocabulary: int, sequences: int = 4, length: int = 16) -> tuple[tuple[int, ...], ...]:
    """Pseudo-random ids, the same in every run."""
    rng = random.Random(20260101)
    return tuple(tuple(rng.randrange(vocabulary) for _ in range(length)) for _ in range(sequences))
