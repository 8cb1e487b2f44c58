"""Mem-π's updates on two ranks: what one rank makes of the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agentmem.config import AdviceConfig, LearnerConfig
from agentmem.trajectory import Trial
from learner.group import LearnerGroup
from learner.rank import LearnerRank
from learner.settings import RankSettings
from learner.stage1 import example
from tests.learner_group.advised import EOS, PROMPT, TOKENS, save_memory_model, structured

TOLERANCE = 2e-4
COMPARED = (
    "policy_loss",
    "decision_loss",
    "content_loss",
    "example_loss",
    "kl",
    "entropy",
    "grad_norm",
    "tokens_trained",
    "generate_share",
    "p_generate",
    "delta",
)


def contexts(seed: int) -> list[list[Trial]]:
    """Three groups: generating helps, it harms, nobody solves it."""
    outcomes = [
        ([False, False], [True, False, True]),
        ([True, True], [False, True, False]),
        ([False], [False]),
    ]
    return [structured(*pair, group=3 * seed + g) for g, pair in enumerate(outcomes)]


@pytest.mark.usefixtures("cluster")
def test_two_ranks_train_what_one_rank_trains(tmp_path: Path) -> None:
    model = save_memory_model(tmp_path)

    def settings(ranks: int, stage: int) -> RankSettings:
        return RankSettings(
            policy="memory",
            model=model,
            learner=LearnerConfig(
                ranks=ranks,
                zero_stage=stage,
                lr=1e-3,
                warmup_updates=0,
                minibatches=2,
                token_budget=24,
                timeout_s=120.0,
            ),
            advice=AdviceConfig(kl_coef=0.05, distil_coef=0.5),
        )

    told = [example((*PROMPT, TOKENS.generate), (20 + i, EOS)) for i in range(3)]
    alone = LearnerRank(settings(1, 0), device=torch.device("cpu"))
    with LearnerGroup(settings(2, 3), cpus_per_rank=0) as group:
        for version in range(2):
            expected = alone.update_groups(contexts(version), version, 0, told)
            found = group.update(contexts(version), version, examples=told)
            assert found.records == expected.records
            for name in COMPARED:
                assert found.metrics[name] == pytest.approx(
                    expected.metrics[name], abs=TOLERANCE, rel=TOLERANCE
                ), name
        loss = -alone.likelihood(alone.prepare_rows(told)[0])[0] / 6
        assert group.example_loss(told) == pytest.approx(loss, abs=TOLERANCE)
    alone.close()
