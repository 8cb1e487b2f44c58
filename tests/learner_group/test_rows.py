"""From trials to training rows."""

from __future__ import annotations

import math
import random

import msgspec
import pytest

from agentmem.config.learning import CreditConfig
from agentmem.failures import AgentMemError
from agentmem.trajectory import Episode, StopReason, Trial, TurnKind
from learner.rows import build_rows, trial_rewards
from tests.learner_group.support import groups, trial, turn

KEEP_ALL = CreditConfig(drop_zero_advantage=False)


def failed(whole: Trial) -> Trial:
    """The same trial, its last episode lost to the infrastructure."""
    lost = msgspec.structs.replace(
        whole.episodes[-1], stop=StopReason.ENV_FAILURE, success=False, reward=None
    )
    return msgspec.structs.replace(whole, episodes=(*whole.episodes[:-1], lost))


def test_every_act_and_reflect_turn_becomes_one_row() -> None:
    batch = build_rows(groups(0), KEEP_ALL)
    assert batch.stats.rows == 12 * (2 * 3 + 1)
    assert [r.kind for r in batch.rows].count(TurnKind.REFLECT) == 12
    assert batch.stats.trained_tokens == sum(len(r.response) for r in batch.rows)


def test_rows_carry_ids_bit_for_bit() -> None:
    (group,) = groups(1, tasks=1)
    batch = build_rows([group], KEEP_ALL)
    turns = [t for e in group[0].episodes for t in e.turns] + list(group[0].reflections)
    own = [r for r in batch.rows if r.trial == 0]
    assert [(r.prompt, r.response, r.engine) for r in own] == [
        (t.prompt_ids, t.response_ids, t.logprobs) for t in turns
    ]


def test_a_trial_without_a_reward_has_no_rows_and_is_nobodys_peer() -> None:
    (group,) = groups(2, tasks=1)
    with_failure = build_rows([[*group, failed(trial(random.Random(9), 4, 0))]], KEEP_ALL)
    without = build_rows([group], KEEP_ALL)
    assert with_failure.rows == without.rows
    assert with_failure.stats.unusable_trials == 1
    assert with_failure.records[-1].reward is None


def test_a_reward_of_zero_is_a_score() -> None:
    (group,) = groups(3, tasks=1)
    assert all(t.valid for t in group)
    assert {r.trial for r in build_rows([group], KEEP_ALL).rows} == {0, 1, 2, 3}


def test_the_invalid_penalty_lowers_the_learning_reward_alone() -> None:
    one = trial(random.Random(0), 0, 0)
    marked = sum(t.invalid for e in one.episodes for t in e.turns)
    assert marked > 0
    learned = trial_rewards(one, 0.25)
    lost = [r for e in learned.episodes for r in e.rewards if r is not None]
    plain = [t.reward for e in one.episodes for t in e.turns if t.reward is not None]
    assert sum(plain) - sum(lost) == pytest.approx(0.25 * marked)
    assert one.episodes[-1].reward in (0.0, 1.0)


def test_rows_of_zero_advantage_are_left_out_and_counted() -> None:
    (group,) = groups(4, tasks=1)
    same = [msgspec.structs.replace(group[0], member=m) for m in range(4)]
    batch = build_rows([same], CreditConfig(estimator="grpo"))
    assert batch.rows == []
    assert batch.stats.zero_rows == batch.stats.turns == 4 * 7


def test_scaled_advantages_have_a_root_mean_square_of_one() -> None:
    batch = build_rows(groups(5), CreditConfig(scale_by_rms=True, drop_zero_advantage=False))
    assert math.sqrt(sum(r.advantage**2 for r in batch.rows) / len(batch.rows)) == pytest.approx(1.0)


def test_turns_of_another_policy_count_for_credit_but_are_not_trained() -> None:
    (group,) = groups(6, tasks=1)
    batch = build_rows([group], KEEP_ALL, policy="memory")
    assert batch.rows == []
    assert batch.stats.reward_mean == build_rows([group], KEEP_ALL).stats.reward_mean


def test_frozen_reflections_have_no_rows_and_leave_the_rows_of_actions_as_they_are() -> None:
    trained = build_rows(groups(5), KEEP_ALL)
    frozen = build_rows(groups(5), CreditConfig(drop_zero_advantage=False, train_reflections=False))
    assert frozen.rows == [row for row in trained.rows if row.kind is TurnKind.ACT]
    assert len(frozen.rows) < len(trained.rows)


def test_a_reflection_that_no_episode_follows_has_no_row() -> None:
    rng = random.Random(7)
    (group,) = groups(7, tasks=1)
    late = turn(rng, kind=TurnKind.REFLECT, response=3, reward=None)
    longer = [msgspec.structs.replace(t, reflections=(*t.reflections, late)) for t in group]
    assert build_rows([longer], KEEP_ALL).rows == build_rows([group], KEEP_ALL).rows


def test_forced_tokens_are_input_and_not_trained() -> None:
    (group,) = groups(8, tasks=1)

    def force(whole: Trial) -> Trial:
        def forced(episode: Episode) -> Episode:
            return msgspec.structs.replace(
                episode,
                turns=tuple(
                    msgspec.structs.replace(t, forced=1, logprobs=(math.nan, -1.0)) for t in episode.turns
                ),
            )

        return msgspec.structs.replace(whole, episodes=tuple(forced(e) for e in whole.episodes))

    rows = [r for r in build_rows([[force(t) for t in group]], KEEP_ALL).rows if r.kind is TurnKind.ACT]
    assert rows
    assert all(r.trained == 1 and len(r.inputs) == len(r.prompt) + 1 for r in rows)


def test_a_trained_turn_without_ids_is_refused() -> None:
    (group,) = groups(9, tasks=1)
    bare = msgspec.structs.replace(group[0].reflections[0], response_ids=None, logprobs=None, versions=None)
    with pytest.raises(AgentMemError, match="no token ids"):
        build_rows([[msgspec.structs.replace(group[0], reflections=(bare,)), *group[1:]]], KEEP_ALL)


def test_a_batch_without_trials_has_no_rows_and_no_nan() -> None:
    batch = build_rows([], CreditConfig(scale_by_rms=True))
    assert batch.rows == []
    assert batch.stats.reward_mean == batch.stats.advantage_rms == batch.stats.invalid_share == 0.0
