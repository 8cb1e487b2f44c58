"""Snapshot directories: never partial, never gone while somebody may read them."""

from pathlib import Path

import pytest
import torch

from agentmem.weights.base import Probe, TensorMeta, WeightUpdate, buckets_of
from agentmem.weights.files import WEIGHTS_FILE, FilesReceiver, FilesSender


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def weights(value: float) -> dict[str, torch.Tensor]:
    return {"a": torch.full((3, 2), value), "b": torch.full((4,), value, dtype=torch.bfloat16)}


def on_disk(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_what_is_published_is_what_is_received(tmp_path: Path) -> None:
    update = FilesSender(tmp_path).publish(3, weights(1.5))
    received = FilesReceiver().receive(update).tensors
    assert received is not None
    assert all(torch.equal(received[name], tensor) for name, tensor in weights(1.5).items())
    assert [meta.dtype for meta in update.tensors] == ["float32", "bfloat16"]


def test_tensors_that_share_storage_are_written_as_two(tmp_path: Path) -> None:
    shared = torch.arange(6.0)
    update = FilesSender(tmp_path).publish(1, {"embed": shared, "head": shared})
    received = FilesReceiver().receive(update).tensors
    assert received is not None
    assert torch.equal(received["embed"], received["head"])


def test_slow_reader_keeps_its_snapshot_over_three_fast_publishes(tmp_path: Path) -> None:
    sender = FilesSender(tmp_path, lease_s=60.0, clock=Clock())
    first = sender.publish(1, weights(1.0), engines=["slow", "fast"])
    for version in (2, 3):
        sender.publish(version, weights(version), engines=["slow", "fast"])
        sender.acknowledge(version, "fast")
    received = FilesReceiver().receive(first).tensors
    assert received is not None
    assert received["a"][0, 0] == 1.0
    sender.acknowledge(3, "slow")
    assert on_disk(tmp_path) == ["v00000002", "v00000003"]


def test_snapshot_that_an_engine_serves_stays_until_it_serves_a_newer_one(tmp_path: Path) -> None:
    sender = FilesSender(tmp_path, clock=Clock())
    sender.publish(1, weights(1), engines=["e"])
    sender.acknowledge(1, "e")
    for version in (2, 3):
        sender.publish(version, weights(version), engines=["e"])
        assert on_disk(tmp_path) == [f"v{v:08d}" for v in range(1, version + 1)]
    sender.acknowledge(3, "e")
    assert on_disk(tmp_path) == ["v00000002", "v00000003"]


def test_a_new_engine_gets_the_last_push_while_the_next_is_published_for_nobody(tmp_path: Path) -> None:
    sender = FilesSender(tmp_path, clock=Clock())
    pushed = sender.publish(1, weights(1.0), engines=["e"])
    sender.acknowledge(1, "e")
    sender.publish(2, weights(2.0), engines=[])  # "e" died; its replacement starts from the last push
    received = FilesReceiver().receive(pushed).tensors
    assert received is not None
    assert received["a"][0, 0] == 1.0


def test_lease_of_a_dead_reader_ends(tmp_path: Path) -> None:
    clock = Clock()
    sender = FilesSender(tmp_path, lease_s=60.0, clock=clock)
    sender.publish(1, weights(1.0), engines=["dead"])
    sender.publish(2, weights(2.0))
    sender.publish(3, weights(3.0))
    assert on_disk(tmp_path) == ["v00000001", "v00000002", "v00000003"]
    clock.now = 61.0
    sender.prune()
    assert on_disk(tmp_path) == ["v00000002", "v00000003"]


def test_partial_snapshot_is_never_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def half_written(_tensors: object, file: Path) -> None:
        file.write_bytes(b"half")
        seen.append([path.name for path in tmp_path.glob("v*")])
        raise OSError("disk full")

    monkeypatch.setattr("safetensors.torch.save_file", half_written)
    with pytest.raises(OSError, match="disk full"):
        FilesSender(tmp_path).publish(1, weights(1.0))
    assert seen == [[]]
    assert not list(tmp_path.glob("v*"))


def test_leftovers_of_a_killed_sender_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".partial-v00000001-99").mkdir()
    FilesSender(tmp_path)
    assert on_disk(tmp_path) == []


def test_publishing_a_version_again_replaces_it(tmp_path: Path) -> None:
    sender = FilesSender(tmp_path)
    sender.publish(1, weights(1.0))
    received = FilesReceiver().receive(sender.publish(1, weights(2.0))).tensors
    assert received is not None
    assert received["a"][0, 0] == 2.0
    assert on_disk(tmp_path) == ["v00000001"]


def test_missing_snapshot_and_missing_tensor_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FilesReceiver(by_path=True).receive(
            WeightUpdate(version=1, transport="files", location=str(tmp_path))
        )
    update = FilesSender(tmp_path).publish(1, weights(1.0))
    more = WeightUpdate(
        version=1,
        transport="files",
        location=update.location,
        tensors=(*update.tensors, TensorMeta(name="c", shape=(1,), dtype="float32")),
    )
    with pytest.raises(ValueError, match="the first is c"):
        FilesReceiver().receive(more)
    assert (Path(update.location) / WEIGHTS_FILE).is_file()


def test_buckets_respect_the_limit_and_the_order() -> None:
    metas = [TensorMeta(name=str(n), shape=(n,), dtype="float32") for n in (10, 10, 10, 100, 1)]
    assert buckets_of(metas, 80) == (2, 1, 1, 1)
    assert sum(buckets_of(metas, 1)) == len(metas)
    assert buckets_of([], 80) == ()


def test_probe_finds_a_difference_and_a_nan() -> None:
    probe = Probe(sequences=((1, 2, 3),), logprobs=((-1.0, -2.0),), tolerance=1e-3)
    assert probe.mismatch([[-1.0, -2.0005]]) is None
    assert "0.01" in str(probe.mismatch([[-1.0, -2.01]]))
    assert "NaN" in str(probe.mismatch([[-1.0, float("nan")]]))
    assert "different number" in str(probe.mismatch([[-1.0]]))
    with pytest.raises(ValueError, match="2 ids need 1"):
        Probe(sequences=((1, 2),), logprobs=((-1.0, -2.0),))
