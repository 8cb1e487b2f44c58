"""What is evaluated, and on which instances: harder ones are said, those trained on are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentmem.app.evaluation.target import (
    PROMPTINGS,
    Target,
    check_trained_on,
    other_agent,
    other_instances,
    prompted_target,
    target_of,
    unseen_domains,
)
from agentmem.app.live.preflight import check_tasks
from agentmem.app.reporting.rundir import RunDir
from agentmem.config import RunConfig, load_config, to_yaml
from agentmem.failures import ConfigError
from envs import registry


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    """A finished run of the quickstart."""
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path))
    run = RunDir.create("lamer-minesweeper")
    run.config_path.write_text(to_yaml(load_config("lamer-minesweeper")))
    run.final_model.mkdir()
    (run.final_model / "model.safetensors").write_bytes(b"")
    return run


def test_harder_instances_are_said(trained: RunDir) -> None:
    assert other_instances(target_of("last", ["evaluation.tasks=4"])) == ""
    harder = target_of("last", ["env.options.mines=4", "env.options.min_clicks=3"])
    assert other_instances(harder) == (
        "trained on env.options min_clicks=its default, mines=3; evaluated on min_clicks=3, mines=4"
    )
    assert other_instances(target_of("lamer-minesweeper", ["env.options.mines=4"])) == ""
    elsewhere = target_of("last", ["env.name=sokoban", "env.options={}"])
    assert other_instances(elsewhere) == "trained on minesweeper, evaluated on sokoban"


def test_an_instance_that_the_run_was_trained_on_is_refused_under_other_options_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def instances(name: str, options: dict[str, object], split: str) -> range:
        """As in an environment whose options choose the splits: with 4 mines the two change places."""
        first = (split == "train") == (options["mines"] == 3)
        return range(10) if first else range(10, 20)

    monkeypatch.setattr(registry, "instances", instances)

    def target(mines: int, trained: RunConfig | None) -> Target:
        config = load_config("lamer-minesweeper", [f"env.options.mines={mines}", "evaluation.tasks=5"])
        return Target("t", config, None, trained)

    stored = load_config("lamer-minesweeper")
    check_trained_on(target(3, stored), 2)
    check_trained_on(target(4, None), 2)
    with pytest.raises(ConfigError, match="is in the training split, too"):
        check_trained_on(target(4, stored), 1)


def mixed(trained: bool = False, **domains: object) -> RunConfig:
    options = {"domains": domains} | ({"leave_out": ["b"]} if trained else {})
    return load_config("lamer-minesweeper", ["env.name=mixture", f"env.options={json.dumps(options)}"])


def test_a_mixture_is_evaluated_after_training_on_a_part_of_it() -> None:
    board = {"env": "minesweeper", "options": {"size": 8, "mines": 6}}
    check_trained_on(Target("t", mixed(a=board, b={"env": "scout"}), None, mixed(a=board)), 1)
    trained = load_config("lamer-minesweeper", ["env.options.mines=3"])
    check_trained_on(Target("t", mixed(a=board), None, trained), 1)


def test_an_instance_of_a_single_environments_training_is_refused_in_a_mixture_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = registry.instances

    def instances(name: str, options: dict[str, object], split: str) -> Sequence[str | int]:
        """Minesweeper with 4 mines evaluates on what it trains on with 3."""
        if name != "minesweeper":
            return real(name, options, split)
        first = (split == "train") == (options["mines"] == 3)
        return range(10) if first else range(10, 20)

    monkeypatch.setattr(registry, "instances", instances)
    board = {name: {"env": "minesweeper", "options": {"mines": n}} for name, n in (("a", 3), ("b", 4))}
    alone = load_config("lamer-minesweeper")
    check_trained_on(Target("t", mixed(a=board["a"]), None, alone), 1)
    with pytest.raises(ConfigError, match="is in the training split, too"):
        check_trained_on(Target("t", mixed(b=board["b"]), None, alone), 1)
    with pytest.raises(ConfigError, match="is in the training split, too"):
        check_trained_on(Target("t", mixed(a=board["a"], b=board["b"]), None, mixed(a=board["a"])), 1)
    with pytest.raises(ConfigError, match="is in the training split, too"):
        check_tasks(mixed(a=board["a"], b=board["b"]), 1)
    check_tasks(mixed(True, a=board["a"], b=board["a"]), 1)


def test_another_agent_than_the_one_that_was_advised_in_training_is_said() -> None:
    trained = load_config("mempi-doors")
    other = load_config("mempi-doors", ["policies.agent.model=scripted:reversed"])
    assert other_agent(Target("t", trained, None, trained)) == ""
    assert other_agent(Target("t", other, None, None)) == ""
    assert other_agent(Target("t", other, None, trained)) == (
        "trained with agent scripted, evaluated with agent scripted:reversed"
    )


def test_domains_that_a_model_was_not_trained_on_are_known() -> None:
    two = {"a": {"env": "minesweeper"}, "b": {"env": "scout"}}
    config = mixed(**two)
    assert unseen_domains(Target("t", config, None, None)) == set()
    assert unseen_domains(Target("t", mixed(True, **two), None, None)) == {"b"}
    assert unseen_domains(Target("t", config, None, mixed(True, **two))) == {"b"}
    assert unseen_domains(Target("t", config, None, load_config("lamer-minesweeper"))) == {"b"}
    assert unseen_domains(Target("t", load_config("lamer-minesweeper"), None, config)) == set()


@pytest.mark.parametrize("prompting", sorted(PROMPTINGS))
def test_a_baselines_settings_come_before_the_users(prompting: str) -> None:
    chosen = ["policies.agent.model=smollm2", "evaluation.sampling.max_tokens=33"]
    target = prompted_target("lamer-minesweeper", prompting, chosen)
    assert target.name == f"lamer-minesweeper-{prompting}"
    assert target.config.evaluation.sampling.max_tokens == 33
    assert target.config.env.prompting == ("zero-shot" if prompting == "zero-shot" else "react")
    reflects = target.config.rollout.memory == "reflection"
    assert reflects == (prompting == "reflexion")
    assert target.config.evaluation.conditions == ["with_memory" if reflects else "without_memory"]


@pytest.mark.parametrize(
    ("prompting", "says"), [("poetry", "known are zero-shot"), ("react", "needs prompts in chat messages")]
)
def test_a_baseline_that_can_not_be_asked_is_refused(prompting: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        prompted_target("lamer-minesweeper", prompting, [])
