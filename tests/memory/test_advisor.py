"""The decision outside training, and what of a hint is given to an agent."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.chat.decision import Decision
from agentmem.memory.advisor import advice_of, decide, gap_of, hint_of, kept_hint, late_turn, p_generate_of
from agentmem.sampling import FinishReason, Sampling
from agentmem.trajectory import Turn, TurnKind


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


@given(st.floats(-30, 30), st.floats(0.2, 3.0))
def test_either_decisions_logprob_tells_the_difference_of_their_logits(
    gap: float, temperature: float
) -> None:
    told = gap_of(log_sigmoid(gap / temperature), Decision.GENERATE, temperature)
    other = gap_of(log_sigmoid(-gap / temperature), Decision.ABSTAIN, temperature)
    for found in (told, other):
        if abs(gap / temperature) < 15:
            assert found == pytest.approx(gap, abs=1e-4)
        else:
            assert found * gap > 0
            assert abs(found) > 14 * temperature
    assert p_generate_of(gap) == pytest.approx(math.exp(log_sigmoid(gap)))


@pytest.mark.parametrize(
    ("gap", "threshold", "speaks"), [(0.1, 0.0, True), (0.0, 0.0, False), (0.9, 1.0, False)]
)
def test_a_hint_is_generated_if_its_logit_is_larger_by_more_than_the_threshold(
    gap: float, threshold: float, speaks: bool
) -> None:
    assert (decide(gap, threshold) is Decision.GENERATE) is speaks


def test_certain_decisions_are_infinitely_far_apart_and_no_error() -> None:
    assert gap_of(0.0, Decision.GENERATE) == math.inf
    assert gap_of(0.0, Decision.ABSTAIN) == -math.inf
    assert (p_generate_of(math.inf), p_generate_of(-math.inf)) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("text", "finish", "sentences", "kept"),
    [
        ("Open it. Then go le", FinishReason.LENGTH, True, "Open it."),
        ("Open it. Then go left", FinishReason.STOP, True, "Open it. Then go left"),
        ("no end in sight", FinishReason.LENGTH, True, ""),
        (" hall red ", FinishReason.LENGTH, False, "hall red"),
    ],
)
def test_a_cut_hint_ends_with_its_last_full_sentence(
    text: str, finish: FinishReason, sentences: bool, kept: str
) -> None:
    assert kept_hint(text, finish, sentences=sentences) == kept


def test_a_late_advice_abstains_and_is_nobodys() -> None:
    turn = late_turn("a door")
    said = advice_of(turn)
    assert (said.decision, said.late, said.version, said.p_generate, hint_of(turn)) == (
        Decision.ABSTAIN,
        True,
        None,
        None,
        None,
    )


def test_a_hints_tokens_are_counted_without_its_decision_and_its_end() -> None:
    turn = Turn(
        kind=TurnKind.ADVISE,
        policy="memory",
        prompt_ids=(1,),
        response_ids=(9, 4, 5, 2),
        logprobs=(math.log(0.8), -1.0, -1.0, -1.0),
        versions=(3, 3, 3, 4),
        sampling=Sampling(max_tokens=8),
        response="go left",
        actions=("generate",),
    )
    said = advice_of(turn)
    assert (said.tokens, said.version, said.text) == (2, 4, "go left")
    assert said.p_generate == pytest.approx(0.8)
