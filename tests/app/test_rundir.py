"""Runs get names that sort, and RUN finds them or says what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem.app.reporting.rundir import RunDir
from agentmem.failures import ConfigError


def make(base: Path, name: str) -> Path:
    (base / name).mkdir(parents=True)
    return base / name


def test_a_new_run_is_a_directory_of_its_own_named_by_recipe(tmp_path: Path) -> None:
    first, second = RunDir.create("lamer-x", tmp_path), RunDir.create("lamer-x", tmp_path)
    assert first.path != second.path
    assert first.path.parent == second.path.parent == tmp_path
    assert first.name.startswith("lamer-x-")
    assert first.checkpoints.is_dir()
    assert first.replay_dir.is_dir()
    assert first.weights_dir.is_dir()


def test_runs_go_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path / "elsewhere"))
    run = RunDir.create("r")
    assert run.path.parent == tmp_path / "elsewhere"
    assert RunDir.find("last") == run


def test_last_is_the_newest_of_all_recipes_whatever_was_touched_since(tmp_path: Path) -> None:
    make(tmp_path, "zebra-20260101-000000-000fff")
    newest = make(tmp_path, "ant-20260102-000000-001000")
    make(tmp_path, "ant-20260102-000000-000fff")
    make(tmp_path, "not a run")
    (tmp_path / "zebra-20260101-000000-000fff" / "metrics.jsonl").touch()
    assert RunDir.find("last", tmp_path).path == newest


@pytest.mark.parametrize("which", ["ant-20260102-000000-0a1b2c", "0a1b2c"])
def test_a_run_is_found_by_its_name_and_by_its_last_digits(tmp_path: Path, which: str) -> None:
    wanted = make(tmp_path, "ant-20260102-000000-0a1b2c")
    make(tmp_path, "ant-20260103-000000-0a1b2d")
    assert RunDir.find(which, tmp_path).path == wanted


def test_a_run_is_found_by_path_even_when_renamed(tmp_path: Path) -> None:
    renamed = make(tmp_path, "best")
    (renamed / "config.yaml").touch()
    assert RunDir.find(str(renamed), tmp_path / "runs").path == renamed


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    other = make(tmp_path, "photos")
    with pytest.raises(ConfigError, match="photos is no run: it has no config.yaml"):
        RunDir.find(str(other), tmp_path)


def test_an_unknown_run_is_one_line_naming_it_and_the_runs_there_are(tmp_path: Path) -> None:
    make(tmp_path, "ant-20260102-000000-0a1b2c")
    with pytest.raises(ConfigError) as error:
        RunDir.find("bee", tmp_path)
    message = str(error.value)
    assert "'bee'" in message
    assert "ant-20260102-000000-0a1b2c" in message
    assert str(tmp_path) in message
    assert "\n" not in message


def test_digits_that_two_runs_share_are_ambiguous(tmp_path: Path) -> None:
    make(tmp_path, "ant-20260102-000000-0a1b2c")
    make(tmp_path, "bee-20260103-000000-0a1b2c")
    with pytest.raises(ConfigError, match="ambiguous: bee.*, ant"):
        RunDir.find("0a1b2c", tmp_path)


def test_without_any_run_last_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no last run: .*nowhere \(AGENTMEM_RUNS\)"):
        RunDir.find("last", tmp_path / "nowhere")


def test_a_runs_directory_that_is_a_file_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(ConfigError, match="AGENTMEM_RUNS"):
        RunDir.create("r", tmp_path / "runs")
