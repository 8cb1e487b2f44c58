"""Invariants of the data model hold at construction and after the wire; other schema versions are refused."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.failures import Failure, FailureKind
from agentmem.sampling import Sampling
from agentmem.trajectory import (
    SCHEMA_VERSION,
    Episode,
    Mode,
    SchemaError,
    StopReason,
    Task,
    Trial,
    Turn,
    TurnKind,
    decode_trial,
    encode_trial,
)
from agentmem.trajectory.codec import KNOWN, decode, encode


def turn(n: int = 2, **over: Any) -> Turn:
    fields: dict[str, Any] = {
        "kind": TurnKind.ACT,
        "policy": "agent",
        "prompt_ids": (1, 2, 3),
        "response_ids": tuple(range(n)),
        "logprobs": (-0.5,) * n,
        "versions": (4,) * n,
        "sampling": Sampling(temperature=0.6),
        "reward": 0.0,
    }
    return Turn(**{**fields, **over})


def episode(index: int = 0, **over: Any) -> Episode:
    fields: dict[str, Any] = {
        "index": index,
        "initial_observation": "board",
        "turns": (turn(),),
        "stop": StopReason.FAILURE,
        "reward": 0.0,
    }
    return Episode(**{**fields, **over})


def trial(*episodes: Episode, **over: Any) -> Trial:
    fields: dict[str, Any] = {
        "ticket": "t",
        "task": Task(environment="minesweeper", instance=3),
        "member": 0,
        "group_size": 8,
        "mode": Mode(),
        "episodes": episodes,
    }
    return Trial(**{**fields, **over})


def test_lengths_of_ids_logprobs_and_versions_must_agree() -> None:
    with pytest.raises(ValueError, match="equally many"):
        turn(logprobs=(-0.5,))
    with pytest.raises(ValueError, match="equally many"):
        turn(versions=(4, 4, 4))


def test_ids_logprobs_and_versions_are_all_there_or_all_absent() -> None:
    with pytest.raises(ValueError, match="all there or all absent"):
        turn(logprobs=None)
    absent = turn(response_ids=None, logprobs=None, versions=None)
    assert absent.response_ids is None


@pytest.mark.parametrize("bad", [math.nan, 0.5, math.inf])
def test_a_sampled_token_has_a_real_logprob(bad: float) -> None:
    with pytest.raises(ValueError, match="log-prob"):
        turn(logprobs=(-0.5, bad))


def test_a_forced_token_has_none() -> None:
    with pytest.raises(ValueError, match="NaN"):
        turn(forced=1)
    assert turn(forced=1, logprobs=(math.nan, -1.0)).forced == 1


def test_reward_none_means_infrastructure_failed_and_zero_is_a_score() -> None:
    with pytest.raises(ValueError, match="env_failure"):
        episode(reward=None)
    with pytest.raises(ValueError, match="env_failure"):
        episode(stop=StopReason.ENV_FAILURE)
    assert not trial(episode(stop=StopReason.ENV_FAILURE, reward=None)).valid
    assert trial(episode(reward=0.0)).valid


def test_success_and_its_stop_reason_go_together() -> None:
    with pytest.raises(ValueError, match="success"):
        episode(success=True)
    assert trial(episode(), episode(1, success=True, stop=StopReason.SUCCESS)).success


def test_a_turn_stands_only_among_its_own_kind() -> None:
    with pytest.raises(ValueError, match="another kind"):
        trial(episode(), reflections=(turn(),))


def test_turns_come_in_the_order_of_play() -> None:
    note = turn(kind=TurnKind.REFLECT)
    played = trial(episode(), episode(1), reflections=(note,)).turns()
    assert [t.kind for t in played] == [TurnKind.ACT, TurnKind.REFLECT, TurnKind.ACT]


def test_version_range_spans_all_tokens() -> None:
    mixed = turn(versions=(4, 6))
    assert trial(episode(turns=(mixed,)), episode(1, turns=(turn(versions=(5, 5)),))).version_range() == (
        4,
        6,
    )


@given(
    st.lists(st.floats(max_value=0.0, allow_nan=False, allow_infinity=False), max_size=6),
    st.text(max_size=20),
    st.one_of(st.none(), st.floats(allow_nan=False)),
)
def test_a_trial_survives_the_wire(logprobs: list[float], text: str, reward: float | None) -> None:
    played = turn(len(logprobs), logprobs=tuple(logprobs), observation=text, reward=reward)
    failure = Failure(kind=FailureKind.INFRASTRUCTURE, what=text)
    before = trial(episode(turns=(played,)), failure=failure)
    assert decode_trial(encode_trial(before)) == before


def test_nan_of_a_forced_token_survives_the_wire() -> None:
    after = decode(encode(turn(forced=1, logprobs=(math.nan, -1.0))), Turn)
    assert after.logprobs is not None
    assert math.isnan(after.logprobs[0])


def test_another_schema_version_is_refused_and_named() -> None:
    payload = msgspec.msgpack.encode((KNOWN[-1] + 1, trial(episode())))
    with pytest.raises(
        SchemaError, match=f"version {KNOWN[-1] + 1}.*reads versions {KNOWN[0]} to {KNOWN[-1]}"
    ):
        decode_trial(payload)


def test_invariants_are_checked_on_the_wire_too() -> None:
    raw = msgspec.to_builtins(trial(episode()))
    raw["episodes"][0]["turns"][0]["logprobs"] = [-0.5]
    with pytest.raises(SchemaError, match="equally many"):
        decode_trial(msgspec.msgpack.encode((SCHEMA_VERSION, raw)))
