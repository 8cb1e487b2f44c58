"""Behaviour cloning."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from agentmem.failures import ConfigError
from learner.model import load_base
from learner.sft import SftConfig, SftProgress, SftRow, train
from tests.learner_group.support import VOCABULARY, save_model

CPU = torch.device("cpu")


def rows(n: int, seed: int = 0) -> list[SftRow]:
    """The answer is the prompt's first token, then 1."""
    rng = random.Random(seed)
    out: list[SftRow] = []
    for _ in range(n):
        prompt = [rng.randrange(2, VOCABULARY) for _ in range(rng.randint(1, 6))]
        out.append((prompt, [prompt[0], 1]))
    return out


def test_it_learns_the_responses_and_reports_progress(tmp_path: Path) -> None:
    model = load_base(save_model(tmp_path), "float32", CPU)
    seen: list[SftProgress] = []
    stats = train(
        model, rows(512), SftConfig(steps=60, batch_rows=64, warmup_steps=5, report_every=25), seen.append
    )
    assert stats.first_loss > 3.0
    assert stats.loss < 0.5 * stats.first_loss
    assert [p.step for p in seen] == [25, 50, 60]
    assert seen[-1].lr == pytest.approx(3e-4)
    assert stats.response_tokens == 2 * stats.rows == 2 * 60 * 64


def test_the_same_seed_trains_the_same_weights(tmp_path: Path) -> None:
    path = save_model(tmp_path)
    trained = []
    for _ in range(2):
        model = load_base(path, "float32", CPU)
        train(model, rows(100), SftConfig(steps=4, batch_rows=16))
        trained.append(torch.cat([p.flatten() for p in model.parameters()]))
    assert torch.equal(*trained)


def test_microbatches_train_what_one_batch_trains(tmp_path: Path) -> None:
    path = save_model(tmp_path)
    trained = []
    for budget in (10_000, 24):
        model = load_base(path, "float32", CPU)
        train(model, rows(64), SftConfig(steps=2, batch_rows=32, token_budget=budget, lr=1e-3))
        trained.append(torch.cat([p.flatten() for p in model.parameters()]))
    torch.testing.assert_close(*trained, atol=1e-5, rtol=1e-4)


def test_a_pass_takes_every_row_once(tmp_path: Path) -> None:
    model = load_base(save_model(tmp_path), "float32", CPU)
    stats = train(model, rows(70), SftConfig(steps=None, epochs=2, batch_rows=16))
    assert stats.steps == 10
    assert stats.rows == 140


@pytest.mark.parametrize("bad", [([], [1]), ([1], []), ([1] * 300, [2])])
def test_a_row_that_cannot_be_trained_is_refused_by_number(tmp_path: Path, bad: SftRow) -> None:
    model = load_base(save_model(tmp_path), "float32", CPU)
    with pytest.raises(ConfigError, match="row 1"):
        train(model, [([1], [2]), bad])
    with pytest.raises(ConfigError, match="no rows"):
        train(model, [])
