"""Mem-π: from groups of advised trials to rows."""

from __future__ import annotations

import math
import random
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.config import AdviceConfig
from agentmem.failures import AgentMemError
from agentmem.memory.advisor import late_turn
from agentmem.trajectory import Trial
from learner.advice_rows import advice_rows
from learner.row import Part, Row, RowBatch
from tests.learner_group.advised import EOS, PROMPT, TOKENS, advice, advised, structured

OUTCOME = st.sampled_from([False, True, None])
GROUP = st.tuples(st.lists(OUTCOME, min_size=1, max_size=3), st.lists(OUTCOME, min_size=1, max_size=7))


def rows_of(*groups: list[Trial], **settings: Any) -> RowBatch:
    return advice_rows(groups, AdviceConfig(**settings), TOKENS)


def content(batch: RowBatch, part: Part = Part.CONTENT) -> list[Row]:
    return [row for row in batch.rows if row.part is part]


def taught(batch: RowBatch) -> list[tuple[int, tuple[int, ...], float]]:
    """What each row teaches, whichever trial it is of."""
    return sorted((int(row.part), row.response, round(row.advantage, 12)) for row in batch.rows)


def test_an_answer_is_a_decision_and_a_hint_of_which_one_sequence_is_read() -> None:
    batch = rows_of(structured([False, False], [True]))
    silent, spoke, hint = batch.rows
    assert (silent.prompt, silent.response, silent.part) == (PROMPT, (TOKENS.abstain,), Part.DECISION)
    assert (spoke.prompt, spoke.response, spoke.part) == (PROMPT, (TOKENS.generate,), Part.DECISION)
    assert (hint.prompt, hint.part) == ((*PROMPT, TOKENS.generate), Part.CONTENT)
    assert hint.response[-1] == EOS
    assert hint.inputs[: len(spoke.inputs)] == spoke.inputs


def test_a_decision_has_no_engine_log_prob_and_is_cut_by_no_top_k() -> None:
    turn = advice("generate")
    cut = msgspec.structs.replace(turn, sampling=msgspec.structs.replace(turn.sampling, top_k=5))
    sampled = advised("free", True, advice("free", generate=True))
    for group, settings in (
        ([advised("abstain", False), advised("generate", True, cut)], {}),
        ([sampled, advised("free", False, advice("free", generate=False))], {"structured": False}),
    ):
        for row in content(rows_of(group, **settings), Part.DECISION):
            assert all(math.isnan(p) for p in row.engine)
            assert (row.sampling.top_k, row.trained) == (0, 1)


@given(GROUP)
def test_the_abstention_is_trained_once_however_many_runs_it_has(
    group: tuple[list[bool | None], list[bool | None]],
) -> None:
    runs, hints = ([w for w in wins if w is not None] for wins in group)
    batch = rows_of(structured(*group))
    decisions = content(batch, Part.DECISION)
    if not runs or not hints:
        assert batch.rows == []
        assert batch.numbers["dead_groups"] == 1
        return
    assert sum(row.response == (TOKENS.abstain,) for row in decisions) == 1
    assert len(decisions) == 1 + len(hints)
    assert len(content(batch)) == len(hints)
    assert math.fsum(row.advantage for row in decisions) == pytest.approx(0.0, abs=1e-9)
    assert batch.numbers["v_abstain"] == pytest.approx(sum(runs) / len(runs))


@given(GROUP, st.randoms(use_true_random=False))
def test_the_order_of_members_teaches_nothing(
    group: tuple[list[bool | None], list[bool | None]], rng: random.Random
) -> None:
    members = structured(*group)
    shuffled = rng.sample(members, len(members))
    assert taught(rows_of(members)) == taught(rows_of(shuffled))


@given(GROUP, st.sampled_from(["abstain", "generate"]))
def test_a_trial_whose_infrastructure_failed_is_nobodys_peer(
    group: tuple[list[bool | None], list[bool | None]], branch: str
) -> None:
    members = structured(*group)
    lost = rows_of([*members, advised(branch, None, member=99)])
    assert taught(lost) == taught(rows_of(members))
    assert lost.records[-1].reward is None
    assert lost.stats.unusable_trials >= 1


def test_a_trial_that_got_no_advice_is_nobodys_peer() -> None:
    members = structured([False], [True, False])
    late = advised("generate", True, (), member=9)
    other = advised("generate", True, advice("generate", policy="other"), member=10)
    batch = rows_of([*members, late, other])
    assert taught(batch) == taught(rows_of(members))
    assert batch.stats.unusable_trials == 2


@hypothesis.settings(deadline=None)
@given(GROUP, st.integers(0, 2), st.integers(0, 3))
def test_late_advice_among_a_groups_trials_changes_nothing_for_the_others(
    group: tuple[list[bool | None], list[bool | None]], silent: int, spoke: int
) -> None:
    members = structured(*group)
    lost = [
        advised(branch, True, late_turn("start"), member=50 + n)
        for n, branch in enumerate(["abstain"] * silent + ["generate"] * spoke)
    ]
    alone, beside = rows_of(members), rows_of([*lost[:2], *members, *lost[2:]])
    assert sorted(taught(beside)) == sorted(taught(alone))
    assert beside.numbers == alone.numbers
    assert beside.stats.unusable_trials == alone.stats.unusable_trials + len(lost)


def test_a_group_whose_advice_was_all_late_teaches_nothing_and_is_dead() -> None:
    branches = ["abstain", "abstain", "generate", "generate"]
    batch = rows_of([advised(b, True, late_turn("start"), member=m) for m, b in enumerate(branches)])
    assert batch.rows == []
    assert (batch.numbers["contexts"], batch.numbers["dead_groups"]) == (1, 1)


@given(st.booleans(), st.integers(1, 3), st.integers(1, 7), st.sampled_from(["hard", "none"]))
def test_equal_rewards_teach_nothing(win: bool, runs: int, hints: int, gate: str) -> None:
    batch = rows_of(structured([win] * runs, [win] * hints), length_coef=0.0, gate=gate)
    assert all(row.advantage == pytest.approx(0.0, abs=1e-12) for row in batch.rows)
    assert batch.numbers["dead_groups"] == 1
    assert batch.stats.zero_rows == batch.stats.rows > 0


def test_where_nobody_solves_it_the_length_alone_hardly_teaches_abstention() -> None:
    lost = structured([False, False], [False] * 7)
    floored = content(rows_of(lost, max_tokens=8), Part.DECISION)[0].advantage
    bare = content(rows_of(lost, max_tokens=8, std_floor=1e-6), Part.DECISION)[0].advantage
    assert 0 < floored < 0.5 < bare


def test_the_gate_closes_hints_where_abstaining_is_as_good_and_leaves_the_decision() -> None:
    group = structured([True, True], [True, False, False])
    closed, naive = rows_of(group), rows_of(group, gate="none")
    assert [row.advantage for row in content(closed)] == [0.0, 0.0, 0.0]
    assert any(abs(row.advantage) > 0.1 for row in content(naive))
    assert [r.advantage for r in content(closed, Part.DECISION)] == [
        r.advantage for r in content(naive, Part.DECISION)
    ]
    assert (closed.numbers["gate_open_share"], naive.numbers["gate_open_share"]) == (0.0, 1.0)
    assert closed.numbers["delta"] < 0


def test_a_longer_hint_of_the_same_success_is_worth_less_and_its_stop_token_costs_nothing() -> None:
    short, long = advice("generate", [9] * 4), advice("generate", [9] * 16)
    cut_off = advice("generate", [9] * 4, ended=False)
    group = [
        advised("abstain", False),
        *(
            advised("generate", True, turn, member=m)
            for m, turn in enumerate((short, long, cut_off), start=1)
        ),
    ]
    batch = rows_of(group, max_tokens=16, length_coef=0.2)
    rewards = [record.reward for record in batch.records]
    assert rewards == pytest.approx([0.0, 1 - 0.2 * 4 / 16, 1 - 0.2, 1 - 0.2 * 4 / 16])
    assert batch.numbers["hint_tokens"] == pytest.approx(8.0)
    assert [record.reward for record in rows_of(group, length_coef=0.0).records] == [0.0, 1.0, 1.0, 1.0]


def test_an_answer_without_anything_behind_its_decision_has_no_hint_to_train() -> None:
    empty = advice("generate", [], ended=False)
    batch = rows_of([advised("abstain", False), advised("generate", True, empty)])
    assert [row.part for row in batch.rows] == [Part.DECISION, Part.DECISION]


def test_the_reward_is_success_or_the_score_by_setting() -> None:
    group = [advised("abstain", False, score=0.25), advised("generate", True, score=0.5)]
    assert rows_of(group, length_coef=0.0, reward="score").numbers["delta"] == pytest.approx(0.25)
    assert rows_of(group, length_coef=0.0).numbers["delta"] == pytest.approx(1.0)
    with pytest.raises(AgentMemError, match="advice.reward is 'score', but test gave none: use 'success'"):
        rows_of([advised("abstain", False)], reward="score")


def test_advice_before_each_episode_is_credited_with_that_episode() -> None:
    def trial(branch: str, wins: list[bool], member: int) -> Trial:
        turns = [advice(branch, [9 + member], prompt=(*PROMPT, 20 + n)) for n in range(len(wins))]
        return advised(branch, wins, turns, member=member)

    group = [trial("abstain", [False, False], 0), trial("generate", [False, True], 1)]
    batch = rows_of(group, every="episode", length_coef=0.0)
    decisions = content(batch, Part.DECISION)
    assert [row.prompt[-1] for row in decisions] == [20, 20, 21, 21]
    assert [row.advantage for row in decisions[:2]] == [0.0, 0.0]
    assert decisions[2].advantage < 0 < decisions[3].advantage
    assert batch.numbers["contexts"] == 2
    assert batch.records[1].advantages == (0.0, decisions[3].advantage)


def free(wins: list[tuple[bool, bool]]) -> list[Trial]:
    """(decides to generate, wins)"""
    return [
        advised("free", win, advice("free", [9 + m], generate=speaks), member=m)
        for m, (speaks, win) in enumerate(wins)
    ]


def test_sampled_decisions_are_each_a_row_and_compared_by_kind() -> None:
    settings: dict[str, Any] = {"structured": False, "length_coef": 0.0}
    batch = rows_of(free([(True, True), (True, False), (False, False), (False, False)]), **settings)
    decisions = content(batch, Part.DECISION)
    assert len(decisions) == 4
    assert decisions[0].advantage == decisions[1].advantage > 0 > decisions[2].advantage
    assert content(batch)[0].advantage == -content(batch)[1].advantage > 0
    alike = rows_of(free([(True, True), (True, False)]), **settings)
    assert [row.advantage for row in content(alike, Part.DECISION)] == [0.0, 0.0]
    assert content(alike)[0].advantage > 0
    assert "delta" not in alike.numbers
    silent = rows_of(free([(False, True), (False, False)]), **settings)
    assert content(silent) == []
    assert silent.numbers["dead_groups"] == 1


def test_an_answer_of_another_branch_than_its_trials_is_refused() -> None:
    wrong = advised("abstain", True, advice("generate"), member=3)
    with pytest.raises(AgentMemError, match=r"trial g0-3: its branch is 'abstain', .*\[GENERATE\]"):
        rows_of([wrong])
    with pytest.raises(AgentMemError, match="'free' goes with no other"):
        rows_of([*structured([True], [True]), *free([(True, True)])])


def test_groups_of_the_replay_table_are_marked() -> None:
    batch = advice_rows(
        [structured([False], [True]), structured([False], [True], group=1)],
        AdviceConfig(),
        TOKENS,
        replayed=1,
    )
    assert [row.replayed for row in batch.rows] == [False] * 3 + [True] * 3


def test_the_settings_say_which_trial_is_of_which_branch() -> None:
    assert AdviceConfig(group=4, runs_abstain=2).branches() == (
        "abstain",
        "abstain",
        "generate",
        "generate",
        "generate",
    )
    assert AdviceConfig(group=3, structured=False).branches() == ("free", "free", "free")
