"""A configuration is right, or one line says which key, what was found and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from agentmem.config import list_recipes, load_config, to_yaml
from agentmem.config.load import from_tree
from agentmem.failures import ConfigError


@pytest.mark.parametrize("recipe", list_recipes())
def test_every_recipe_loads_and_survives_its_own_yaml(recipe: str) -> None:
    config = load_config(recipe)
    assert config.recipe == recipe
    assert from_tree(yaml.safe_load(to_yaml(config))) == config


def test_every_recipe_says_in_one_line_what_it_is() -> None:
    assert all(len(about) > 20 for about in list_recipes().values())


def test_later_overrides_win_and_reach_nested_keys() -> None:
    config = load_config(
        "lamer-minesweeper",
        ["learner.lr=1e-5", "learner.lr=2e-5", "engines.agent.replicas=2", "env.options.mines=2"],
    )
    assert config.learner.lr == 2e-5
    assert config.engines["agent"].replicas == 2
    assert config.env.options["mines"] == 2


def test_a_recipe_file_may_extend_a_recipe(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("# Mine.\nbase: lamer-minesweeper\nlearner: {updates: 3}\n")
    config = load_config(str(path))
    assert (config.recipe, config.learner.updates, config.env.name) == ("mine", 3, "minesweeper")


@pytest.mark.parametrize(
    ("override", "names"),
    [
        ("learner.lrr=1", ["learner.lrr", "did you mean 'lr'", "zero_stage"]),
        ("learner.lr=abc", ["learner.lr", "'abc'", "number"]),
        ("learner.ranks=0", ["learner.ranks", "0", "greater than or equal to 1"]),
        ("env.max_turns=7.5", ["env.max_turns", "7.5", "integer"]),
        ("rollout.memory=dreams", ["rollout.memory", "dreams", "'history'", "'both'"]),
        ("engines.agnt.replicas=2", ["engines.agnt", "policies are ['agent']"]),
        (
            "engines.agent.tensor_parallel=4",
            ["engines.agent.tensor_parallel", "4", "engines.agent.gpus >= 4"],
        ),
        ("weights.transport=nccl", ["weights.transport", "nccl", "'files'"]),
        ("replay.min_group=99", ["replay.min_group", "99", "rollout.group_size (8)"]),
        ("rollout.sampling.max_tokens=64", ["rollout.sampling.max_tokens", "64", "context_length"]),
        ("method=rl", ["rollout.episodes", "3", "method 'rl'"]),
        ("method=magic", ["method", "magic", "'lamer'"]),
        ("policies.agent.lora={rank: 8, alph: 3}", ["policies.agent.lora.alph", "did you mean 'alpha'"]),
        ("env.workers=3", ["env.workers", "3", "worker"]),
        ("credit.gamma_traj=1.5", ["credit.gamma_traj", "1.5", "less than or equal to 1"]),
        ("credit.gamma_step=-0.1", ["credit.gamma_step", "-0.1", "greater than or equal to 0"]),
        ("credit.gae_lambda=2.0", ["credit.gae_lambda", "2.0", "less than or equal to 1"]),
        ("credit.estimator=reinforce", ["credit.estimator", "reinforce", "'gigpo'", "'ppo'"]),
        ("credit.return_form=both", ["credit.return_form", "both", "'paper'", "'chained'"]),
        ("credit.norm=std", ["credit.norm", "std", "'mean'", "'mean_std'"]),
        ("rollout.group_size=1", ["rollout.group_size", "1", "'gigpo'", "at least 2 trials"]),
        ("memory.tips.p=1.5", ["memory.tips.p", "1.5", "less than or equal to 1"]),
        ("memory.tips.q=-0.1", ["memory.tips.q", "-0.1", "greater than or equal to 0"]),
        ("memory.tips.min_cosine=2.0", ["memory.tips.min_cosine", "2.0", "less than or equal to 1"]),
        ("memory.tips.capacity=0", ["memory.tips.capacity", "0", "greater than or equal to 1"]),
        ("memory.tips.key=dream", ["memory.tips.key", "dream", "'observation'", "'chat'"]),
        ("memory.novelty.tau=1.1", ["memory.novelty.tau", "1.1", "less than or equal to 1"]),
        ("memory.novelty.coefficient=-1.0", ["memory.novelty.coefficient", "-1.0", "greater than"]),
        ("memory.embedder=bert", ["memory.embedder", "bert", "'minilm'", "'words'"]),
        ("objective.mask_delta=1.0", ["objective.mask_delta", "1.0", "less than 1"]),
        ("objective.off_policy_old=new", ["objective.off_policy_old", "new", "'behaviour'", "'student'"]),
        ("learner", ["key=value"]),
        ("learner.lr=1e400", ["learner.lr", "finite"]),
        ("learner.betas=[0.9, 2]", ["learner.betas.1", "2", "less than 1"]),
        ("rollout.group_size=1000000", ["rollout.group_size", "1024"]),
        ("learner.lr.x=1", ["learner.lr.x", "is a value, not a section"]),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(override: str, names: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("lamer-minesweeper", [override])
    line = str(caught.value)
    assert "\n" not in line
    for name in names:
        assert name in line


@pytest.mark.parametrize("estimator", ["gigpo", "grpo", "rloo"])
def test_a_comparison_within_a_group_needs_two_trials_and_ppo_one(estimator: str) -> None:
    alone = ["rollout.group_size=1", "replay.min_group=1"]
    with pytest.raises(ConfigError) as caught:
        load_config("lamer-minesweeper", [*alone, f"credit.estimator={estimator}"])
    assert f"rollout.group_size is 1: credit.estimator '{estimator}' compares at least 2" in str(caught.value)
    assert load_config("lamer-minesweeper", [*alone, "credit.estimator=ppo"]).rollout.group_size == 1


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["credit.estimator=ppo"], ["credit.estimator", "'ppo'", "'empo2'"]),
        (["rollout.group_size=1"], ["rollout.group_size", "'grpo'", "at least 2 trials"]),
        (["memory.tips.max_tokens=4096"], ["memory.tips.max_tokens", "4096", "context_length (2048)"]),
    ],
)
def test_an_impossible_setting_of_empo2_is_one_line_that_names_it(
    overrides: list[str], names: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("empo2-webshop", overrides)
    line = str(caught.value)
    assert "\n" not in line
    for name in names:
        assert name in line


def test_a_recipe_adapts_to_a_model_that_is_not_tiny_and_overrides_still_win() -> None:
    config = load_config("lamer-minesweeper", ["policies.agent.model=smollm2", "learner.updates=7"])
    assert config.env.options["format"] == "text"
    assert config.rollout.sampling.max_tokens > 1
    assert config.learner.updates == 7
    assert load_config("lamer-minesweeper").env.options["format"] == "compact"


def test_a_trained_tiny_model_keeps_the_recipe_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"agentmem_tiny": true}')
    config = load_config("lamer-minesweeper", [f"policies.agent.model={tmp_path}"])
    assert config.env.options["format"] == "compact"


def test_the_printed_configuration_holds_no_password() -> None:
    config = load_config("lamer-minesweeper", ["replay.url=redis://:secret@host:6379/0"])
    assert config.replay.url == "redis://:secret@host:6379/0"
    assert "secret" not in to_yaml(config)
    assert "host:6379" in to_yaml(config)


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="did you mean 'lamer-minesweeper'.*lamer-minesweeper-reflect"):
        load_config("lamer-minesweper")


def test_a_recipe_file_that_is_no_yaml_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("env: [1,\n  2")
    with pytest.raises(ConfigError) as caught:
        load_config(str(path))
    assert "broken.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "found nothing"),
        (b"- 1\n", "found list"),
        (b"base: [a]\n", "base is"),
        (b"base: mine.yaml\n", "based on"),
        (b"base: nothing\n", "base of"),
        (b"\xff\xfe\x00", "can't be read"),
    ],
)
def test_a_recipe_file_that_is_none_is_one_line(
    text: bytes, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        load_config("mine.yaml")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_recipes_that_are_based_on_each_other_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("base: b.yaml\n")
    Path("b.yaml").write_text("base: a.yaml\n")
    with pytest.raises(ConfigError, match="is based on"):
        load_config("a.yaml")


def test_a_recipe_for_another_environment_inherits_none_of_its_options(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("base: lamer-minesweeper\nenv: {name: sokoban, options: {boxes: 1}}\n")
    assert load_config(str(path)).env.options == {"boxes": 1}


def test_a_missing_recipe_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere.yaml: not found"):
        load_config(str(tmp_path / "nowhere.yaml"))


MEMORY = [
    "method=mempi",
    "policies.agent.trained=false",
    "policies.memory={model: tiny}",
    "engines.memory={}",
    "rollout.group_size=9",
    "credit.scale_by_rms=false",
]


def test_a_memory_policy_beside_a_frozen_agent_is_a_configuration() -> None:
    config = load_config("lamer-minesweeper", MEMORY)
    assert config.advice.branches().count("generate") == 7
    assert config.advice.branches().count("abstain") == 2
    load_config("lamer-minesweeper", [*MEMORY, "advice.structured=false", "rollout.group_size=8"])
    load_config("lamer-minesweeper", [*MEMORY, "method=mempi-stage1", "policies.memory.context_length=8449"])


@pytest.mark.parametrize(
    ("override", "names"),
    [
        ("policies.memory.trained=false", ["policies", "['agent', 'memory']", "'mempi'", "named 'memory'"]),
        ("policies.agent.trained=true", ["policies.agent.trained", "True", "(false)"]),
        ("rollout.group_size=8", ["rollout.group_size", "8", "are 9", "advice.runs_abstain"]),
        ("advice.structured=false", ["rollout.group_size", "9", "are 8"]),
        ("advice.group=1", ["advice.group", "1", "greater than or equal to 2"]),
        ("advice.max_tokens=2048", ["advice.max_tokens", "2048", "context_length (2048)"]),
        ("advice.gate=soft", ["advice.gate", "soft", "'hard'", "'none'"]),
        ("advice.std_floor=0.0", ["advice.std_floor", "0.0", "greater than 0"]),
        ("advice.every=turn", ["advice.every", "turn", "'trial'", "'episode'"]),
        ("advice.lambda=0.2", ["advice.lambda", "length_coef"]),
        ("advice.stage1.warmup=3", ["advice.stage1.warmup", "3", "less than or equal to 1"]),
        ("method=mempi-stage1", ["advice.stage1.max_prompt", "8192", "context_length (2048)"]),
        ("objective.kl_coef=0.1", ["objective.kl_coef", "0.1", "advice.kl_coef"]),
        ("objective.normalise=trial", ["objective.normalise", "trial", "a mean each"]),
        ("credit.scale_by_rms=true", ["credit.scale_by_rms", "True", "advice.std_floor"]),
        ("credit.estimator=ppo", ["credit.estimator", "ppo", "no value head"]),
        ("policies.memory.lora={push: adapter}", ["policies.memory.lora.push", "adapter", "'merged'"]),
    ],
)
def test_an_impossible_setting_of_a_memory_policy_is_one_line_that_names_it(
    override: str, names: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("lamer-minesweeper", [*MEMORY, override])
    line = str(caught.value)
    assert "\n" not in line
    for name in names:
        assert name in line


def test_a_memory_policy_without_its_model_is_one_line() -> None:
    with pytest.raises(ConfigError, match="policies is .*method 'mempi' trains a policy named 'memory'"):
        load_config("lamer-minesweeper", ["method=mempi"])


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["policies.agent.trained=true"], ["policies.agent.trained", "True", "policies.agent.model"]),
        (["policies.memory.model=scripted"], ["policies.memory.model", "'scripted'", "only policy 'agent'"]),
        (
            ["policies.agent.endpoint={url: 'http://h/v1'}"],
            ["policies.agent.endpoint", "http://h/v1", "script"],
        ),
        (
            ["policies.memory.endpoint={url: 'http://h/v1'}", "policies.memory.model=m"],
            ["policies.memory.endpoint", "http://h/v1", "only policy 'agent'"],
        ),
        (["policies.agent.model=tiny"], ["engines", "'agent'"]),
        (["policies.memory.trained=false"], ["policies", "'memory'"]),
        (["generators.replicas=0"], ["generators.replicas", "0", "greater than or equal to 1"]),
    ],
)
def test_an_impossible_pair_of_policies_is_one_line_that_names_it(
    overrides: list[str], names: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("mempi-doors", overrides)
    line = str(caught.value)
    assert "\n" not in line
    for name in names:
        assert name in line


def test_only_policies_that_play_here_have_engines() -> None:
    scripted = load_config("mempi-doors")
    assert (scripted.served, scripted.learning) == (("memory",), "memory")
    far = load_config(
        "mempi-doors",
        [
            "env.options.format=text",
            "policies.agent.model=gpt",
            "policies.agent.endpoint={url: 'http://h/v1'}",
        ],
    )
    assert far.served == ("memory",)
    near = load_config("mempi-doors", ["policies.agent.model=tiny", "engines.agent={}"])
    assert near.served == ("agent", "memory")
    with pytest.raises(ConfigError, match=r"policies.agent.trained is False: method 'lamer' trains it"):
        load_config("lamer-minesweeper", ["policies.agent.trained=false"])
