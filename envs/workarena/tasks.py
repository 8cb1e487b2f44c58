"""WorkArena's tasks of the first level by category, and which of them is which instance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from envs.options import EnvSetupError

CATEGORIES = {
    "dashboard": (
        "multi-chart-value-retrieval",
        "multi-chart-min-max-retrieval",
        "single-chart-value-retrieval",
        "single-chart-min-max-retrieval",
    ),
    "form": (
        "create-change-request",
        "create-incident",
        "create-hardware-asset",
        "create-problem",
        "create-user",
    ),
    "knowledge": ("knowledge-base-search",),
    "list-filter": (
        "filter-asset-list",
        "filter-change-request-list",
        "filter-hardware-list",
        "filter-incident-list",
        "filter-service-catalog-item-list",
        "filter-user-list",
    ),
    "list-sort": (
        "sort-asset-list",
        "sort-change-request-list",
        "sort-hardware-list",
        "sort-incident-list",
        "sort-service-catalog-item-list",
        "sort-user-list",
    ),
    "menu": ("all-menu", "impersonation"),
    "service-catalog": (
        "order-developer-laptop",
        "order-ipad-mini",
        "order-ipad-pro",
        "order-sales-laptop",
        "order-standard-laptop",
        "order-apple-watch",
        "order-apple-mac-book-pro15",
        "order-development-laptop-p-c",
        "order-loaner-laptop",
    ),
}
TASKS = tuple(task for tasks in CATEGORIES.values() for task in tasks)
"""All, in the order in which the benchmark draws their seeds."""

FIRST_TRAIN_SEED = 1000
_EVAL_SEEDS = 10
_META_SEED = 42


@cache
def eval_seeds() -> dict[str, tuple[int, ...]]:
    """The benchmark's seeds of each task: ten from 0 to 999 (a few come twice), drawn task by task."""
    import numpy as np

    rng = np.random.RandomState(_META_SEED)
    return {task: tuple(int(seed) for seed in rng.randint(0, 1000, _EVAL_SEEDS)) for task in TASKS}


def listed(value: str) -> tuple[str, ...] | None:
    """The names in an option; None if it is `all`."""
    return None if value == "all" else tuple(name.strip() for name in value.split(","))


def chosen(categories: str, tasks: str) -> list[str]:
    """The tasks that both options leave."""
    kinds, names = listed(categories), listed(tasks)
    return [
        task
        for kind, members in CATEGORIES.items()
        for task in members
        if (kinds is None or kind in kinds) and (names is None or task in names)
    ]


def instances(tasks: Sequence[str], split: str, train_seeds: int) -> list[str]:
    """`task/seed` for each, task by task for each seed: the first ones are of different tasks."""
    if split == "train":
        seeds = range(FIRST_TRAIN_SEED, FIRST_TRAIN_SEED + train_seeds)
        return [f"{task}/{seed}" for seed in seeds for task in tasks]
    drawn = [f"{task}/{eval_seeds()[task][turn]}" for turn in range(_EVAL_SEEDS) for task in tasks]
    return list(dict.fromkeys(drawn))


def parsed(instance: object) -> tuple[str, int]:
    """Task and seed of an instance. Raises `EnvSetupError` if it isn't one."""
    task, _, seed = str(instance).rpartition("/")
    if task not in TASKS or not (seed.isascii() and seed.isdigit() and len(seed) < 10):
        raise EnvSetupError(
            f"workarena: no instance {str(instance)[:80]!r}: must be task/seed, as in all-menu/7"
        )
    return task, int(seed)
