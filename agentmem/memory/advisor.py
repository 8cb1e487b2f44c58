"""What a memory policy's advice is, and how it decides outside training (Mem-π). Pure.

The decision compares two logits: a hint is generated if logit[GENERATE] − logit[ABSTAIN] > τ. The difference
is read from the log-probability of either decision in a choice between the two alone.
"""

from __future__ import annotations

import math

import msgspec

from agentmem.chat.cut import full_sentences
from agentmem.chat.decision import Decision
from agentmem.sampling import FinishReason
from agentmem.trajectory import Turn, TurnKind


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What a memory policy says to a task and a first observation."""

    decision: Decision
    text: str
    """The hint; empty on abstain."""
    p_generate: float | None = None
    """Between the two decisions; None where it wasn't asked (the answer was late, or forced)."""
    tokens: int = 0
    """Of the hint."""
    latency_s: float = 0.0
    version: int | None = None
    """Of the weights; None where it isn't known."""
    late: bool = False
    """It abstains because no answer came in time."""


def gap_of(logprob: float, decision: Decision, temperature: float = 1.0) -> float:
    """logit[GENERATE] − logit[ABSTAIN], from the log-prob of one of them in a choice between the two at this
    temperature. Infinite where the other's probability is below what a float tells."""
    other = math.log(-math.expm1(logprob)) if logprob < 0 else -math.inf
    gap = temperature * (logprob - other)
    return gap if decision is Decision.GENERATE else -gap


def p_generate_of(gap: float) -> float:
    """σ(gap): the probability of [GENERATE] between the two."""
    if gap >= 0:
        return 1 / (1 + math.exp(-gap))
    return math.exp(gap) / (1 + math.exp(gap)) if gap > -math.inf else 0.0


def decide(gap: float, threshold: float) -> Decision:
    """The rule outside training."""
    return Decision.GENERATE if gap > threshold else Decision.ABSTAIN


def kept_hint(text: str, finish: FinishReason, *, sentences: bool) -> str:
    """What of a sampled hint the agent is given: one that ran into the token limit ends with its last full
    sentence. Formats that aren't written in sentences (`sentences` False) keep every word."""
    text = text.strip()
    return full_sentences(text) if sentences and finish is FinishReason.LENGTH else text


def late_turn(observation: str) -> Turn:
    """An advice that didn't come in time: nobody's turn, without ids. The agent goes without a hint."""
    return Turn(
        kind=TurnKind.ADVISE,
        policy="",
        observation=observation,
        actions=(Decision.ABSTAIN.value,),
        invalid=True,
    )


def hint_of(turn: Turn) -> str | None:
    """What an advice turn puts into the agent's prompts."""
    return turn.response or None


def advice_of(turn: Turn, latency_s: float = 0.0, gap: float | None = None) -> Advice:
    """An advice turn as an advice."""
    decision = Decision(turn.actions[0])
    ended = turn.finish_reason is FinishReason.STOP
    hint = len(turn.response_ids or ()) - 1 - ended if decision is Decision.GENERATE else 0
    if gap is None:
        gap = turn_gap(turn)
    return Advice(
        decision=decision,
        text=turn.response,
        p_generate=None if gap is None else p_generate_of(gap),
        tokens=max(hint, 0),
        latency_s=latency_s,
        version=max(turn.versions) if turn.versions else None,
        late=not turn.policy,
    )


def turn_gap(turn: Turn) -> float | None:
    """The logits' difference that an advice turn's decision had; None if it wasn't asked for."""
    if turn.gap is not None:
        return turn.gap
    if not turn.logprobs or turn.forced or turn.sampling is None or not turn.actions:
        return None
    return gap_of(turn.logprobs[0], Decision(turn.actions[0]), turn.sampling.temperature)
