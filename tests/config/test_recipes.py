"""Recipes are named alike; without `-paper` two cores are enough, with it the papers' figures stand there.

The figures are those of LaMer (arXiv 2512.16848), EMPO² (arXiv 2602.23008) and Mem-π (arXiv 2605.21463), and
of the baselines that they compare with: their lists of hyperparameters, and where they are silent their
public code.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentmem.config import list_recipes, load_config
from agentmem.config.schema import RunConfig
from envs.registry import validate_options

METHODS = ("lamer", "empo2", "mempi", "combined", "gigpo", "grpo", "ppo")
PAPER = [name for name in list_recipes() if name.endswith("-paper")]
SMALL = [name for name in list_recipes() if not name.endswith("-paper")]

GAMES = ("minesweeper", "sokoban")
LAMER_ENVIRONMENTS = (*GAMES, "webshop", "alfworld")

LAMER: dict[str, Any] = {
    "policies.agent.model": "Qwen/Qwen3-4B",
    "policies.agent.template_options.enable_thinking": False,
    "learner.lr": 1e-6,
    "objective.clip_low": 0.2,
    "objective.clip_high": 0.2,
    "objective.kl_coef": 0.0,
    "rollout.sampling.max_tokens": 1024,
    "rollout.sampling.temperature": 1.0,
    "evaluation.sampling.temperature": 0.7,
    "evaluation.sampling.top_p": 0.8,
    "evaluation.sampling.top_k": 20,
    "evaluation.tasks": 512,
    "evaluation.episodes": 3,
    "credit.gamma_step": 0.95,
    "credit.omega": 1.0,
    "env.invalid_penalty": 0.5,
}
"""What holds for LaMer and its baselines in every environment."""

TRIALS: dict[str, dict[str, Any]] = {
    "lamer": {
        "method": "lamer",
        "credit.estimator": "gigpo",
        "rollout.episodes": 3,
        "rollout.group_size": 8,
        "rollout.memory": "both",
    },
    "gigpo": {"method": "rl", "credit.estimator": "gigpo", "rollout.group_size": 24},
    "grpo": {"method": "rl", "credit.estimator": "grpo", "rollout.group_size": 24},
    "ppo": {"method": "rl", "credit.estimator": "ppo", "rollout.group_size": 24},
}
"""LaMer's 8 trials of up to 3 episodes, and 24 single episodes: equal trajectories."""

WORLDS: dict[str, dict[str, Any]] = {
    "minesweeper": {
        "env.options.size": 6,
        "env.options.mines": 3,
        "env.max_turns": 7,
        "env.options.history_turns": 7,
        "rollout.prompt_limit": 2048,
        "rollout.tasks_per_update": 16,
        "learner.updates": 300,
        "credit.gamma_traj": 0.9,
        "env.options.rewards.win": 10.0,
        "env.options.rewards.cell": 0.5,
        "env.options.rewards.cascade": 2.0,
        "env.options.rewards.mine": -0.1,
        "env.options.rewards.no_effect": -1.0,
    },
    "sokoban": {
        "env.options.size": 6,
        "env.options.boxes": 2,
        "env.max_turns": 7,
        "env.options.max_moves_per_turn": 3,
        "env.options.history_turns": 7,
        "rollout.prompt_limit": 2048,
        "rollout.tasks_per_update": 16,
        "learner.updates": 300,
        "credit.gamma_traj": 0.6,
        "env.options.rewards.move": -0.1,
        "env.options.rewards.box_on": 1.0,
        "env.options.rewards.box_off": -1.0,
        "env.options.rewards.solved": 10.0,
    },
    "webshop": {
        "env.max_turns": 12,
        "env.options.history_turns": 5,
        "env.options.reward": "win",  # 10 or 0
        "rollout.prompt_limit": 8192,
        "rollout.tasks_per_update": 8,
        "learner.updates": 150,
        "credit.gamma_traj": 0.6,
    },
    "alfworld": {
        "env.max_turns": 10,
        "env.eval_max_turns": 30,
        "env.options.history_turns": 15,
        "env.options.won_reward": 10.0,
        "env.options.protocol": "out_of_distribution",
        "rollout.prompt_limit": 4096,
        "rollout.tasks_per_update": 8,
        "learner.updates": 150,
        "credit.gamma_traj": 0.6,
    },
}

PUBLISHED: dict[str, dict[str, Any]] = {
    f"{method}-{world}-paper": {**LAMER, **TRIALS[method], **WORLDS[world]}
    for method in TRIALS
    for world in LAMER_ENVIRONMENTS
}

EMPO2: dict[str, Any] = {
    "policies.agent.model": "Qwen/Qwen2.5-7B-Instruct",
    "learner.lr": 1e-6,
    "rollout.group_size": 8,
    "rollout.tasks_per_update": 16,
    "rollout.episodes": 1,
    "rollout.prompt_limit": 4500,
    "rollout.sampling.temperature": 1.0,
    "evaluation.sampling.temperature": 0.4,
    "objective.clip_low": 0.2,
    "objective.clip_high": 0.3,
    "credit.norm": "mean_std",
}
"""What holds for EMPO² and the baselines that it was compared with."""

MEMORY: dict[str, Any] = {
    "method": "empo2",
    "credit.estimator": "grpo",
    "memory.embedder": "minilm",
    "memory.tips.p": 0.25,
    "memory.tips.q": 2 / 3,
    "memory.tips.key": "observation",
    "memory.tips.scope": "instance",
    "memory.tips.capacity": 1000,
    "memory.tips.recalled": 10,
    "memory.tips.min_cosine": 0.5,
    "memory.novelty.coefficient": 0.1,
    "memory.novelty.tau": 0.9,
    "objective.off_policy_old": "behaviour",
    "objective.mask_delta": math.exp(-5.0),
    "objective.mask_scope": "token",
    "objective.mask_source": "student",
}
"""EMPO²'s own: tips, off-policy updates, novelty."""

SCIENCEWORLD: dict[str, Any] = {
    "env.max_turns": 30,
    "env.options.variations_per_task": 5,
    "env.options.eval_variations_per_task": 20,
    "env.options.eval_split": "test",
    "rollout.sampling.max_tokens": 32,
    "objective.kl_coef": 0.0,
    "credit.gamma_step": 1.0,
    "learner.minibatches": 8,  # 128 trials, 16 a mini-batch
}
SHOP: dict[str, Any] = {
    "env.max_turns": 15,
    "env.options.reward": "score",
    "rollout.sampling.max_tokens": 512,
    "objective.kl_coef": 0.01,
}
PUBLISHED |= {
    "empo2-scienceworld-paper": {**EMPO2, **MEMORY, **SCIENCEWORLD},
    "grpo-scienceworld-paper": {**EMPO2, **SCIENCEWORLD, "method": "rl", "credit.estimator": "grpo"},
    "empo2-webshop-paper": {**EMPO2, **MEMORY, **SHOP},
    "grpo-webshop-7b-paper": {**EMPO2, **SHOP, "method": "rl", "credit.estimator": "grpo"},
    "gigpo-webshop-7b-paper": {**EMPO2, **SHOP, "method": "rl", "credit.estimator": "gigpo"},
}


MEMPI: dict[str, Any] = {
    "rollout.tasks_per_update": 16,
    "rollout.sampling.temperature": 1.0,
    "rollout.episodes": 1,
    "advice.group": 8,
    "advice.runs_abstain": 2,
    "advice.max_tokens": 256,
    "advice.length_coef": 0.1,
    "advice.std_floor": 0.1,
    "advice.decision_coef": 1.0,
    "advice.kl_coef": 0.01,
    "advice.gate": "hard",
    "advice.structured": True,
    "advice.threshold": 0.0,
    "advice.every": "trial",
    "advice.reward": "success",
    "advice.stage1.lr": 1e-5,
    "advice.stage1.epochs": 3,
    "advice.stage1.batch": 64,
    "advice.stage1.warmup": 0.03,
    "advice.stage1.max_prompt": 8192,
    "advice.stage1.max_target": 256,
    "objective.clip_low": 0.2,
    "objective.clip_high": 0.2,
    "learner.lr": 1e-6,
    "learner.updates": 200,
    "policies.agent.trained": False,
}
"""What holds for Mem-π in every environment; its Stage 1 has the same settings and another method."""

ADVISED: dict[str, dict[str, Any]] = {
    "alfworld": {"evaluation.tasks": 134, "env.options.eval_split": "valid_unseen"},
    "webarena": {"evaluation.tasks": 165, "env.options.fuzzy": "judge", "env.max_turns": 30},
    "workarena": {"env.options.level": "l1", "env.options.tasks": "all", "env.max_turns": 15},
    "lab-db": {"env.max_turns": 3},
    "lab-os": {"env.max_turns": 5},
}
PUBLISHED |= {
    f"mempi-{world}{stage}-paper": {**MEMPI, **figures, "method": f"mempi{stage}"}
    for world, figures in ADVISED.items()
    for stage in ("", "-stage1")
}


def tree_of(config: RunConfig) -> dict[str, Any]:
    """The whole configuration, the environment's own options with their defaults filled in."""
    import dataclasses

    tree = config.model_dump()
    options: Any = validate_options(config.env.name, config.env.options)
    tree["env"]["options"] = dataclasses.asdict(options)
    return tree


def at(tree: dict[str, Any], key: str) -> Any:
    node: Any = tree
    for part in key.split("."):
        node = node[part]
    return node


def gpus(config: RunConfig) -> float:
    engines = sum(engine.gpus * engine.replicas for engine in config.engines.values())
    return engines + config.learner.gpus_per_rank * config.learner.ranks


@pytest.mark.parametrize("recipe", list_recipes())
def test_a_name_says_method_and_environment(recipe: str) -> None:
    config = load_config(recipe)
    method, _, rest = recipe.partition("-")
    assert method in METHODS
    assert f"{rest}-".startswith((f"{config.env.name}-", "multi-"))
    if method in ("gigpo", "grpo", "ppo"):
        assert (config.method, config.credit.estimator) == ("rl", method)
    elif method == "combined":
        assert config.advised
        assert config.tipped
        assert config.rollout.episodes > 1
    elif recipe.removesuffix("-paper").endswith("-stage1"):
        assert config.method == f"{method}-stage1"
    else:
        assert config.method == method


@pytest.mark.parametrize("recipe", SMALL)
def test_without_paper_two_cores_are_enough(recipe: str) -> None:
    config = load_config(recipe)
    assert gpus(config) == 0
    assert config.policies["agent"].model in ("tiny", "smollm2", "scripted")
    assert [config.engines[name].replicas for name in config.served] == [1] * len(config.served)
    assert config.learner.ranks == 1


@pytest.mark.parametrize("recipe", list_recipes())
def test_the_options_are_the_environments_own(recipe: str) -> None:
    config = load_config(recipe)
    options: Any = validate_options(config.env.name, config.env.options)
    # The limit on turns is the trial loop's; where the prompt tells it, too, it must be the same one.
    if "max_turns" in config.env.options:
        assert options.max_turns == config.env.max_turns


@pytest.mark.parametrize("recipe", PAPER)
def test_the_published_setting_asks_for_gpus_and_keeps_the_papers_figures(recipe: str) -> None:
    config = load_config(recipe)
    assert gpus(config) >= 2
    tree = tree_of(config)
    found = {key: at(tree, key) for key in PUBLISHED[recipe]}
    assert found == PUBLISHED[recipe]


@pytest.mark.parametrize("world", LAMER_ENVIRONMENTS)
@pytest.mark.parametrize("paper", ["", "-paper"])
def test_a_baseline_plays_as_many_episodes_as_lamer_and_is_told_apart_by_its_method_alone(
    world: str, paper: str
) -> None:
    lamer = load_config(f"lamer-{world}{paper}")
    for method in ("gigpo", "grpo", "ppo"):
        other = load_config(f"{method}-{world}{paper}")
        trials = other.rollout.group_size * other.rollout.tasks_per_update
        assert other.rollout.episodes == 1
        assert trials == lamer.rollout.episodes * lamer.rollout.group_size * lamer.rollout.tasks_per_update
        assert other.env == lamer.env
        assert other.policies == lamer.policies
        assert other.evaluation == lamer.evaluation
        assert set(other.evaluation.conditions) == {"with_memory", "without_memory"}


def test_alfworld_is_trained_on_four_types_of_tasks_and_evaluated_on_the_other_two() -> None:
    for name in ("lamer-alfworld", "lamer-alfworld-paper"):
        config = load_config(name)
        options: Any = validate_options(config.env.name, config.env.options)
        trained, evaluated = set(options.types("train")), set(options.types("eval"))
        assert not trained & evaluated
        assert {len(trained), len(evaluated)} == {4, 2}
