"""Every estimator trains in the whole system, with credit across episodes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.e2e.runs import TINY, TORCH, Run

SHORT = (*TINY, *TORCH, "learner.updates=2", "evaluation.tasks=0")


@pytest.mark.parametrize(
    "credit",
    [
        {"estimator": "grpo", "norm": "mean", "baseline": "trial"},
        {"estimator": "grpo", "norm": "mean_std", "baseline": "episode"},
        {"estimator": "rloo", "baseline": "trial", "return_form": "chained"},
    ],
    ids=lambda credit: "-".join(credit.values()),
)
def test_group_estimators_train_on_trials_of_three_episodes(
    start: Callable[..., Run], credit: dict[str, str]
) -> None:
    run = start("lamer-minesweeper", *SHORT, *(f"credit.{key}={value}" for key, value in credit.items()))
    assert run.end() == 0, run.output()
    updates = run.records("update")
    assert [r["version"] for r in updates] == [1, 2]
    for record in updates:
        assert len(record["p_at_k"]) == 3
        assert record["trained_tokens"] > 0
        assert record["grad_norm"] > 0
        assert record["value_loss"] is None
        assert record["explained_variance"] is None


def test_ppo_trains_groups_of_one_trial_and_resumes_with_its_value_head(start: Callable[..., Run]) -> None:
    settings = (*SHORT, "credit.estimator=ppo", "rollout.group_size=1", "replay.min_group=1")
    run = start("lamer-minesweeper", *settings, "rollout.tasks_per_update=16")
    assert run.end() == 0, run.output()
    first = run.records("update")
    assert [r["trials"] for r in first] == [16, 16]
    assert all(r["value_loss"] > 0 for r in first)
    assert first[0]["explained_variance"] == pytest.approx(0.0, abs=1e-6)  # the head starts at 0
    index = json.loads((run.path / "final_model" / "config.json").read_text())
    assert index["architectures"] == ["LlamaForCausalLM"]  # a plain language model, no head

    again = start("lamer-minesweeper", "learner.updates=3", resume="last")
    assert again.end() == 0, again.output()
    third = again.records("update")[-1]
    assert third["update"] == 3
    # A fresh head would say 0 everywhere and explain nothing.
    assert abs(third["explained_variance"]) > 1e-6
