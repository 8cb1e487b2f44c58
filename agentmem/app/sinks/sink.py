"""What a sink is, how records become its scalars, and which sinks there are.

A sink is told nothing that `metrics.jsonl` doesn't hold. Its own settings (project, server, key) are its
library's environment variables; none of them is read, kept or printed here.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from agentmem.app.reporting.records import EvalRecord, EventRecord, GapRecord, MaskRecord, Record
from agentmem.failures import ConfigError

PACKAGES: Mapping[str, str] = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}
"""Sink to the module that it needs; the extra of AgentMem that installs it has the sink's name."""


class Sink(Protocol):
    """Open from its making until `close`. Methods may block and may raise whatever the library raises."""

    def publish(self, step: int, scalars: Mapping[str, float]) -> None:
        """Values measured after `step` updates, by name (`update/policy_loss`)."""

    def close(self) -> None:
        """Hand over what is pending."""


def check(names: Sequence[str]) -> None:
    """Raises ConfigError for a sink whose package isn't installed."""
    for name in names:
        if importlib.util.find_spec(PACKAGES[name]) is None:
            raise ConfigError(
                f"telemetry.sinks: '{name}' needs the package {PACKAGES[name]}, which isn't installed: "
                f"pip install 'agentmem[{name}]'"
            )


def open_sink(name: str, run: str, config: Mapping[str, Any], directory: Path) -> Sink:
    """The sink of a run by its name. A second one of the same run goes on with what the first began.

    `config`: the run's resolved configuration, `directory`: the run's, for sinks that write files.
    """
    module = importlib.import_module(f"agentmem.app.sinks.{name}")
    sink: Sink = module.open_sink(run, config, directory)
    return sink


def scalars_of(record: Record) -> tuple[int, dict[str, float]]:
    """A record's update and its numbers by name; none for what isn't measured over updates."""
    match record:
        case EventRecord() | MaskRecord():
            return 0, {}
        case EvalRecord():
            return record.update, _numbers(f"eval/{record.condition}", record, leave=("condition",))
        case GapRecord():
            return record.update, _numbers("gap", record)
        case _:
            kind = str(record.__struct_config__.tag)
            return record.update, _numbers(kind, record, leave=("groups",))


def _numbers(prefix: str, record: Record, leave: tuple[str, ...] = ()) -> dict[str, float]:
    found: dict[str, float] = {}
    for field in msgspec.structs.fields(record):
        if field.name not in ("update", *leave):
            _flatten(f"{prefix}/{field.name}", getattr(record, field.name), found)
    return found


def _flatten(name: str, value: Any, into: dict[str, float]) -> None:
    match value:
        case bool() | None:
            return
        case int() | float():
            into[name] = float(value)
        case list():
            for number, item in enumerate(value, start=1):
                _flatten(f"{name}/{number}", item, into)
        case dict():
            for key, item in value.items():
                _flatten(f"{name}/{key}", item, into)
        case msgspec.Struct():
            _flatten(name, msgspec.structs.asdict(value), into)
