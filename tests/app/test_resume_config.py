"""A resumed run keeps its own configuration; what it depends on can't change."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem.app.reporting.rundir import RunDir
from agentmem.app.training.resume import resumed_config
from agentmem.config import load_config, to_yaml
from agentmem.failures import ConfigError


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir.create("lamer-minesweeper", tmp_path)
    made.config_path.write_text(to_yaml(load_config("lamer-minesweeper", ["learner.lr=1e-4", "seed=3"])))
    return made


def test_its_own_settings_stay_without_being_said_again(run: RunDir) -> None:
    config = resumed_config("lamer-minesweeper", str(run.path), [])
    assert (config.learner.lr, config.seed) == (1e-4, 3)


def test_overrides_come_on_top(run: RunDir) -> None:
    config = resumed_config("lamer-minesweeper", str(run.path), ["learner.updates=7"])
    assert (config.learner.lr, config.learner.updates) == (1e-4, 7)


@pytest.mark.parametrize(
    "change", ["env.options.size=5", "seed=4", "policies.agent.model=smollm2", "rollout.group_size=4"]
)
def test_what_its_trials_and_weights_depend_on_cannot_change(run: RunDir, change: str) -> None:
    with pytest.raises(ConfigError, match="can't change when a run is resumed.*start a new run"):
        resumed_config("lamer-minesweeper", str(run.path), [change])


def test_another_recipe_is_refused(run: RunDir) -> None:
    with pytest.raises(ConfigError, match="of another recipe than gigpo-minesweeper"):
        resumed_config("gigpo-minesweeper", str(run.path), [])


def test_a_password_that_was_not_stored_is_asked_for(run: RunDir) -> None:
    secret = load_config("lamer-minesweeper", ["replay.url=redis://:pw@host:1/0"])
    run.config_path.write_text(to_yaml(secret))
    with pytest.raises(ConfigError, match="give it again"):
        resumed_config("lamer-minesweeper", str(run.path), [])
    url = "redis://:pw@host:1/0"
    assert resumed_config("lamer-minesweeper", str(run.path), [f"replay.url={url}"]).replay.url == url
