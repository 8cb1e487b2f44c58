"""Snapshot directories on a shared file system: works on any hardware.

Sender: writes `v00000007/model.safetensors` in a hidden directory and renames it, so a partial snapshot is
never visible. A snapshot is kept until every engine that it was published for has acknowledged it (or a newer
version), or until its lease ends; the newest two and those that engines serve are always kept (the one before
the newest is what an engine gets that is being started while the newest is published).
Receiver: reads the snapshot by its path.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.weights.base import Adapter, Deadlines, Probe, Staged, WeightUpdate, describe

if TYPE_CHECKING:
    import torch

WEIGHTS_FILE = "model.safetensors"


class FilesSender:
    """Publishes snapshots under `root`. Not thread-safe: one learner rank owns it."""

    def __init__(
        self, root: str | Path, *, lease_s: float = 600.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.root = Path(root)
        self.lease_s = lease_s
        self._clock = clock
        self._served: dict[str, int] = {}
        """What each engine serves: its snapshot is what a failed update goes back to, so it stays, too."""
        self._waiting: dict[int, dict[str, float]] = {}
        """For each snapshot on disk: the engines that may still read it, and until when."""
        self.root.mkdir(parents=True, exist_ok=True)
        # Left over by a sender that was killed while writing; no manifest ever named them.
        for partial in self.root.glob(".partial-*"):
            shutil.rmtree(partial)

    def publish(
        self,
        version: int,
        tensors: Mapping[str, torch.Tensor],
        *,
        engines: Iterable[str] = (),
        probe: Probe | None = None,
        deadlines: Deadlines | None = None,
    ) -> WeightUpdate:
        """Write a snapshot of these tensors and return its manifest. Writing a version twice is allowed."""
        from safetensors.torch import save_file

        # Tied or sliced tensors share storage, which the format refuses; a plain copy is what is meant.
        plain = {name: t.detach().to("cpu").contiguous() for name, t in tensors.items()}
        seen: set[int] = set()
        for name, t in plain.items():
            if t.data_ptr() in seen:
                plain[name] = t.clone()
            seen.add(t.data_ptr())
        target = self._write(version, lambda folder: save_file(plain, folder / WEIGHTS_FILE))
        self._keep(version, engines)
        return WeightUpdate(
            version=version,
            transport="files",
            location=str(target),
            tensors=describe(plain),
            probe=probe,
            deadlines=deadlines or Deadlines(),
        )

    def publish_adapter(
        self,
        version: int,
        adapter: Path,
        *,
        rank: int,
        engines: Iterable[str] = (),
        probe: Probe | None = None,
        deadlines: Deadlines | None = None,
    ) -> WeightUpdate:
        """Publish a LoRA adapter that was saved in PEFT's format; the base weights aren't sent."""
        target = self._write(version, lambda folder: shutil.copytree(adapter, folder, dirs_exist_ok=True))
        self._keep(version, engines)
        return WeightUpdate(
            version=version,
            transport="files",
            location=str(target),
            probe=probe,
            adapter=Adapter(path=str(target), rank=rank),
            deadlines=deadlines or Deadlines(),
        )

    def acknowledge(self, version: int, engine: str) -> None:
        """An engine serves `version`, so it reads no snapshot up to it any more."""
        self._served[engine] = max(version, self._served.get(engine, version))
        for held, readers in self._waiting.items():
            if held <= version:
                readers.pop(engine, None)
        self.prune()

    def prune(self) -> None:
        """Remove every snapshot that no engine may still read, except the newest two."""
        now = self._clock()
        kept = {*sorted(self._waiting)[-2:], *self._served.values()}
        for version in sorted(self._waiting):
            if version in kept or any(until > now for until in self._waiting[version].values()):
                continue
            shutil.rmtree(self.path_of(version))
            del self._waiting[version]

    def path_of(self, version: int) -> Path:
        return self.root / f"v{version:08d}"

    def _keep(self, version: int, engines: Iterable[str]) -> None:
        readers = dict.fromkeys(engines, self._clock() + self.lease_s)
        self._waiting[version] = readers
        # Engines that aren't published for any more have left.
        self._served = {engine: served for engine, served in self._served.items() if engine in readers}
        self.prune()

    def _write(self, version: int, fill: Callable[[Path], object]) -> Path:
        target = self.path_of(version)
        partial = self.root / f".partial-{target.name}-{os.getpid()}"
        partial.mkdir()
        fill(partial)
        if target.exists():
            # The same version again (a resumed learner): replace it as a whole.
            old = self.root / f".partial-old-{target.name}-{os.getpid()}"
            target.rename(old)
            partial.rename(target)
            shutil.rmtree(old)
        else:
            partial.rename(target)
        return target


class FilesReceiver:
    """Reads snapshots. `by_path`: leave the reading to the workers, which each need a part of it only."""

    def __init__(self, *, by_path: bool = False) -> None:
        self.by_path = by_path

    def receive(self, update: WeightUpdate) -> Staged:
        from safetensors.torch import load_file

        file = Path(update.location) / WEIGHTS_FILE
        if self.by_path:
            if not file.is_file():
                raise FileNotFoundError(f"no snapshot at {file}")
            return Staged(path=update.location)
        tensors = load_file(file)
        missing = [meta.name for meta in update.tensors if meta.name not in tensors]
        if missing:
            raise ValueError(
                f"snapshot {file} lacks {len(missing)} announced tensors, the first is {missing[0]}"
            )
        return Staged(tensors=tensors)
