"""Sinks: real TensorBoard event files, a real W&B run (offline), a real MLflow store."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.app.reporting.records import (
    EvalRecord,
    EventRecord,
    MetricsWriter,
    UpdateRecord,
    truncate_after,
)
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.sinks import publisher, sink
from agentmem.app.sinks.publisher import Publisher, publish_run
from agentmem.failures import AgentMemError, ConfigError

CONFIG = "recipe: r\nlearner: {lr: 0.001, updates: 2}\n"


def update(number: int) -> UpdateRecord:
    return UpdateRecord(
        update=number, version=number, t=1.0 * number, trials=4, p_at_k=[0.25, 0.5], policy_loss=0.5 / number,
        groups=["g"],
    )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path / "runs"))
    made = RunDir.create("grpo-doors")
    made.config_path.write_text(CONFIG, encoding="utf-8")
    return made


def write(run: RunDir, *records: Any) -> None:
    with MetricsWriter(run.metrics_path) as writer:
        writer.write(records)


def test_a_record_becomes_the_numbers_that_it_holds_by_name() -> None:
    step, scalars = sink.scalars_of(update(2))
    assert step == 2
    assert scalars["update/policy_loss"] == 0.25
    assert (scalars["update/p_at_k/1"], scalars["update/p_at_k/2"]) == (0.25, 0.5)
    assert "update/value_loss" not in scalars, "what wasn't measured isn't 0"
    assert not [name for name in scalars if name.startswith("update/groups")]
    held_out = EvalRecord(update=2, condition="with_memory", n=8, p_at_k=[0.5], low=[0.2], high=[0.8])
    assert sink.scalars_of(held_out)[1]["eval/with_memory/p_at_k/1"] == 0.5
    assert sink.scalars_of(EventRecord(t=1.0, what="resume")) == (0, {})


def events(directory: Path) -> dict[tuple[str, int], float]:
    """Scalars of TensorBoard's event files: records of length, checksum, bytes, checksum."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in sorted(directory.glob("events.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = Event.FromString(data[at + 12 : at + 12 + length])
            found.update({(value.tag, event.step): value.simple_value for value in event.summary.value})
            at += 12 + length + 4
    return found


def test_tensorboard_gets_each_record_once_over_several_tries(run: RunDir) -> None:
    write(run, update(1))
    publish_run(run.name, ["tensorboard"])
    write(run, update(2))
    publish_run(run.name, ["tensorboard"])
    found = events(run.path / "tensorboard")
    assert found["update/policy_loss", 1] == 0.5
    assert found["update/policy_loss", 2] == 0.25
    sizes = [path.stat().st_size for path in (run.path / "tensorboard").iterdir()]
    publish_run(run.name, ["tensorboard"])
    assert [path.stat().st_size for path in (run.path / "tensorboard").iterdir()] == sizes


def test_mlflow_gets_metrics_and_the_configuration_in_one_run_of_its_own(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    write(run, update(1))
    publish_run(run.name, ["mlflow"])
    write(run, update(2))
    publish_run(run.name, ["mlflow"])
    client = MlflowClient()
    experiment = client.get_experiment_by_name("agentmem")
    assert experiment is not None
    (theirs,) = client.search_runs([experiment.experiment_id])
    assert theirs.data.params["learner.lr"] == "0.001"
    history = client.get_metric_history(theirs.info.run_id, "update/policy_loss")
    assert [(point.step, point.value) for point in history] == [(1, 0.5), (2, 0.25)]
    assert theirs.info.status == "FINISHED"


def wandb_records(path: Path) -> list[bytes]:
    """Of W&B's file, in LevelDB's log format: chunks in blocks of 32 KiB, behind a header of seven bytes."""
    data, at, whole, part = path.read_bytes(), 7, [], b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, or last
            whole.append(part)
            part = b""
    return whole


def test_wandb_writes_an_offline_run_that_holds_the_values(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    write(run, update(1), update(2))
    publish_run(run.name, ["wandb"])
    (file,) = (run.path / "wandb").glob("offline-run-*/*.wandb")
    seen: dict[str, list[str]] = {}
    for data in wandb_records(file):
        record = Record.FromString(data)
        for item in record.history.item:
            seen.setdefault(item.key or "/".join(item.nested_key), []).append(item.value_json)
    assert [float(value) for value in seen["update/policy_loss"]] == [0.5, 0.25]
    assert [float(value) for value in seen["updates"]] == [1, 2]


def test_an_unreachable_server_is_told_at_the_end_and_gets_everything_later(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    write(run, update(1), update(2))
    told: list[str] = []
    with Publisher(run, ["mlflow", "tensorboard"], {}, told.append):
        pass
    (line,) = told
    assert "mlflow: 2 of 2 records not published" in line
    assert f"agentmem publish {run.name} --to mlflow" in line
    assert len(events(run.path / "tensorboard")) > 0, "one sink's fault isn't another's"
    with pytest.raises(AgentMemError, match="mlflow: 2 of 2"):
        publish_run(run.name, ["mlflow"])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    assert publish_run(run.name, ["mlflow"]) == [f"mlflow has the 2 records of {run.name}"]


class Kept:
    """A sink that remembers, and tells when it has had enough."""

    def __init__(self, enough: int) -> None:
        self.steps: list[int] = []
        self.enough, self.full = enough, threading.Event()

    def publish(self, step: int, scalars: Any) -> None:
        self.steps.append(step)
        if len(self.steps) >= self.enough:
            self.full.set()

    def close(self) -> None: ...


def opened(kept: Kept) -> Callable[..., Kept]:
    return lambda *_: kept


def test_what_a_running_run_writes_is_published_while_it_runs(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(enough=2)
    monkeypatch.setattr(publisher, "open_sink", opened(kept))
    monkeypatch.setattr(publisher, "LOOK_S", 0.01)
    with Publisher(run, ["tensorboard"], {}, print):
        write(run, update(1), update(2))
        assert kept.full.wait(20), "published before the end"
    assert kept.steps == [1, 2]


def test_updates_that_a_resumed_run_makes_again_are_published_again(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(enough=9)
    monkeypatch.setattr(publisher, "open_sink", opened(kept))
    write(run, update(1), update(2), update(3))
    publish_run(run.name, ["tensorboard"])
    truncate_after(run.metrics_path, 1)
    publish_run(run.name, ["tensorboard"])
    write(run, update(2))
    publish_run(run.name, ["tensorboard"])
    assert kept.steps == [1, 2, 3, 2]


def test_a_sink_without_its_package_is_refused_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sink.PACKAGES, "wandb", "no_such_package")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"telemetry.sinks: 'wandb' needs .* 'agentmem\[wandb\]'"):
        sink.check(["wandb"])


def test_an_unknown_sink_is_refused_with_those_that_there_are(run: RunDir) -> None:
    result = CliRunner().invoke(app, ["publish", run.name, "--to", "grafana"])
    assert isinstance(result.exception, ConfigError)
    assert "--to is 'grafana': tensorboard, wandb, mlflow are allowed" in str(result.exception)
