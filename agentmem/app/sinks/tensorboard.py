"""TensorBoard: event files in `tensorboard/` of the run's directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """See `Sink`."""

    def __init__(self, directory: Path) -> None:
        from tensorboardX import SummaryWriter

        files = directory / "tensorboard"
        # A file is named after the second of its making: two of one second need names of their own.
        before = len(list(files.glob("events.*")))
        self._writer = SummaryWriter(str(files), filename_suffix=f".{before}")

    def publish(self, step: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def open_sink(run: str, config: Mapping[str, Any], directory: Path) -> TensorBoard:
    """Event files have no place for a configuration; the run's directory has it."""
    return TensorBoard(directory)
