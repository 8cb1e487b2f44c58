"""A checkpoint is complete or ignored."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentmem.failures import ConfigError
from learner import checkpoint


def save(root: Path, step: int) -> checkpoint.Checkpoint:
    folder = checkpoint.begin(root, step)
    (folder / "part").mkdir()
    (folder / "part" / "weights.bin").write_bytes(bytes([step]) * 1000)
    return checkpoint.commit(folder, step, {"cursor": step * 10})


def test_the_newest_complete_checkpoint_is_taken_with_its_extra(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        save(tmp_path, step)
    found = checkpoint.newest(tmp_path)
    assert found is not None
    assert (found.step, found.extra) == (10, {"cursor": 100})


def test_without_any_checkpoint_there_is_none(tmp_path: Path) -> None:
    assert checkpoint.newest(tmp_path / "nowhere") is None


def test_one_killed_while_saving_is_passed_over_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 1)
    # It kills itself between writing its files and the commit: the latest moment at which it is incomplete.
    program = (
        "import os, signal, sys, pathlib; from learner import checkpoint as c;"
        "f = c.begin(pathlib.Path(sys.argv[1]), 2); (f / 'weights.bin').write_bytes(b'x' * 1000);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    with caplog.at_level(logging.WARNING):
        found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.step == 1
    assert "step-00000002 is ignored: it was not finished" in caplog.text


@pytest.mark.parametrize("damage", ["cut", "changed", "removed", "marker"])
def test_a_damaged_checkpoint_is_passed_over_and_the_log_names_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    save(tmp_path, 1)
    folder = save(tmp_path, 2).path
    file = folder / "part" / "weights.bin"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "changed":
        file.write_bytes(b"\x03" * 1000)
    elif damage == "removed":
        file.unlink()
    else:
        (folder / checkpoint.MARKER).write_text("{")
    with caplog.at_level(logging.WARNING):
        found = checkpoint.newest(tmp_path)
    assert found is not None
    assert found.step == 1
    assert ("commit marker" if damage == "marker" else "weights.bin") in caplog.text
    with pytest.raises(ConfigError, match="can't be used"):
        checkpoint.read(folder)


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 3)
    folder = checkpoint.begin(tmp_path, 3)
    assert list(folder.iterdir()) == []
    assert checkpoint.newest(tmp_path) is None


def test_pruning_keeps_the_newest_complete_ones(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, step)
    checkpoint.begin(tmp_path, 4)  # being written: newer than every complete one
    checkpoint.prune(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000002", "step-00000003", "step-00000004"]
