"""PPO's value head on a real rank: it learns, it is saved and restored, and it stays in the learner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agentmem.config.learning import CreditConfig, LearnerConfig
from agentmem.weights.files import FilesReceiver
from learner.rank import LearnerRank
from learner.settings import RankSettings
from tests.learner_group.support import groups, save_model

PPO = CreditConfig(estimator="ppo")
LEARNER = LearnerConfig(lr=1e-2, minibatches=2, updates=20, warmup_updates=0)
Make = Callable[..., LearnerRank]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A rank on a small random model."""
    model = save_model(tmp_path / "model")

    def build(credit: CreditConfig = PPO, **changes: Any) -> LearnerRank:
        settings = RankSettings(
            policy="agent",
            model=model,
            learner=LEARNER.model_copy(update=changes),
            credit=credit,
            weights_dir=str(tmp_path / "weights"),
        )
        return LearnerRank(settings, device=torch.device("cpu"))

    return build


def head_of(rank: LearnerRank) -> torch.nn.Linear:
    head = rank.model.value_head
    assert head is not None
    return head


def moments(rank: LearnerRank) -> list[torch.Tensor]:
    """First and second moments of AdamW for the value head's parameters."""
    state = rank.engine.engine.optimizer.state
    return [state[p][name] for p in head_of(rank).parameters() for name in ("exp_avg", "exp_avg_sq")]


def test_a_checkpoint_holds_the_value_head_and_its_optimiser_state(make: Make, tmp_path: Path) -> None:
    rank = make()
    for v in range(2):
        rank.update_groups(groups(v), v)
    folder = rank.save_checkpoint(str(tmp_path / "checkpoints"), 2, {})
    saved = [p.detach().clone() for p in head_of(rank).parameters()]
    saved_moments = [m.clone() for m in moments(rank)]
    assert all(p.abs().sum() > 0 for p in saved)
    assert all(m.abs().sum() > 0 for m in saved_moments)
    straight = rank.update_groups(groups(2), 2)

    resumed = make()
    resumed.load_checkpoint(folder)
    assert all(torch.equal(a, b) for a, b in zip(head_of(resumed).parameters(), saved, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(moments(resumed), saved_moments, strict=True))
    again = resumed.update_groups(groups(2), 2)
    assert again.metrics["value_loss"] == straight.metrics["value_loss"]
    assert again.rows.explained_variance == straight.rows.explained_variance
    assert all(
        torch.equal(a, b) for a, b in zip(resumed.model.parameters(), rank.model.parameters(), strict=True)
    )


@pytest.mark.parametrize("stage", [0, 3])
def test_neither_a_push_nor_the_final_model_holds_the_value_head(
    make: Make, tmp_path: Path, stage: int
) -> None:
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    rank = make(zero_stage=stage)
    rank.update_groups(groups(0), 0)
    update = rank.outlet.publish(1, ["engine"])
    assert update is not None
    pushed = FilesReceiver().receive(update).tensors
    assert pushed is not None
    announced = {meta.name for meta in rank.outlet.manifest(1, "nccl", "tcp://host:1/2/1").tensors}
    rank.final_model(str(tmp_path / "final"))
    written = load_file(tmp_path / "final" / "model.safetensors")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    names = {name for name, _ in plain.named_parameters()}
    assert set(pushed) == announced == set(written) == names


def test_the_values_come_to_explain_the_targets(make: Make) -> None:
    rank = make(CreditConfig(estimator="ppo", gamma_traj=0.0))
    played = groups(5, tasks=2)
    found = [rank.update_groups(played, v).rows.explained_variance for v in range(12)]
    first, last = found[0], found[-1]
    assert first is not None
    assert last is not None
    assert first == pytest.approx(0.0, abs=1e-6)  # the head starts at 0 everywhere
    assert last > 0.3


def test_a_group_of_one_trial_trains_under_ppo(make: Make) -> None:
    rank = make()
    result = rank.update_groups(groups(0, tasks=6, members=1), 0)
    assert result.applied
    assert result.rows.rows > 0
    assert result.metrics["value_loss"] > 0


def test_other_estimators_have_no_head_and_report_nothing_of_it(make: Make) -> None:
    rank = make(CreditConfig(estimator="grpo"))
    assert rank.model.value_head is None
    result = rank.update_groups(groups(0), 0)
    assert "value_loss" not in result.metrics
    assert result.rows.explained_variance is None
