"""Mem-π: groups of advised trials -> rows for the memory policy (arXiv 2605.21463).

An advice turn's answer is its decision's token, the hint's tokens, and a stop token. It becomes up to two
rows, which batching trains in one sequence, since what the first reads is the beginning of what the second
reads:

    decision   prompt -> [GENERATE] or [ABSTAIN]                       A_d
    content    prompt [GENERATE] -> hint and its stop token            gate · A_c

Nothing behind [ABSTAIN] is trained. A decision has no engine log-prob, forced or not: its old log-prob is the
learner's own at the start of the update, and its importance weight is 1.

A structured group has branches (`Mode.advice`): its trials of the branch `abstain` are runs of one answer,
y_0, so their task rewards are averaged to R_0 and the answer is trained once; every trial of the branch
`generate` is an answer of its own. Without a structure (branch `free`) every trial's decision was sampled,
and each is a row (`credit.decision_content.sampled_decisions` says what is compared with what).

A trial without a reward or without advice (advice_answers.py) is nobody's peer. A group that then has nothing
to compare gives no rows and is dead. So is one whose advantages are all zero, but it keeps its rows: the
means of the loss are over all decisions and all hints of the update, and the KL term reads every one of them.
Where all groups are dead and there is no KL term, nothing is left to train, and the update has no rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentmem.chat.decision import Decision, DecisionTokens
from agentmem.config.advice import AdviceConfig
from agentmem.failures import AgentMemError
from agentmem.sampling import Sampling
from agentmem.trajectory import Trial
from learner.advice_answers import Answer, answer_of, contexts_of
from learner.credit.decision_content import decision_content, sampled_decisions
from learner.row import Part, Row, RowBatch, RowStats, TrialRecord

ZERO = 1e-9
"""An advantage no larger is zero: equal rewards may differ from their mean by rounding."""


@dataclass(slots=True)
class Credited:
    """What a context's comparison gives: rows, A_d by trial, and its numbers."""

    rows: list[Row] = field(default_factory=list)
    decisions: dict[int, float] = field(default_factory=dict)
    rewards: dict[int, float] = field(default_factory=dict)
    v_gen: float | None = None
    v_abstain: float | None = None
    gate: float | None = None
    """None where there was no Δ: nothing to open or to close it."""

    @property
    def dead(self) -> bool:
        """Whether nothing is taught but what the KL term asks."""
        return all(abs(row.advantage) <= ZERO for row in self.rows)


def advice_rows(
    groups: Sequence[Sequence[Trial]],
    cfg: AdviceConfig,
    tokens: DecisionTokens,
    *,
    policy: str = "memory",
    replayed: int = 0,
) -> RowBatch:
    """Rows of an update in the order of groups, contexts and members. The last `replayed` groups were drawn
    from the replay table."""
    contexts: list[Credited] = []
    answers: list[Answer] = []
    trials: list[Trial] = []
    usable: set[int] = set()
    for g, group in enumerate(groups):
        first = len(trials)
        trials.extend(group)
        branches = {trial.mode.advice for trial in group}
        if "free" in branches and branches != {"free"}:
            raise AgentMemError(f"a group has the branches {sorted(branches)}: 'free' goes with no other")
        for n in range(contexts_of(group, cfg)):
            compared = [
                answer
                for i, trial in enumerate(group, start=first)
                if (answer := answer_of(trial, i, n, cfg, tokens, policy)) is not None
            ]
            usable.update(answer.trial for answer in compared)
            answers.extend(compared)
            compare = _free if branches == {"free"} else _structured
            contexts.append(compare(compared, cfg, g >= len(groups) - replayed))
    rows = [row for context in contexts for row in context.rows]
    if cfg.kl_coef == 0 and all(context.dead for context in contexts):
        rows = []
    return _batch(trials, usable, answers, contexts, rows)


def _structured(answers: Sequence[Answer], cfg: AdviceConfig, replayed: bool) -> Credited:
    runs = [a for a in answers if a.decision is Decision.ABSTAIN]
    hints = [a for a in answers if a.decision is Decision.GENERATE]
    credit = decision_content(
        math.fsum(a.reward for a in runs) / len(runs) if runs else None,
        [a.reward for a in hints],
        [a.hint_tokens for a in hints],
        l_max=cfg.max_tokens,
        length_weight=cfg.length_coef,
        std_floor=cfg.std_floor,
        gate=cfg.gate,
    )
    if credit is None:
        return Credited()
    out = Credited(v_gen=credit.v_gen, v_abstain=credit.v_gen - credit.delta, gate=credit.gate)
    out.rows.append(_decision(runs[0], credit.adv_abstain, replayed))
    for run in runs:
        out.decisions[run.trial], out.rewards[run.trial] = credit.adv_abstain, run.reward
    for hint, reward, content in zip(hints, credit.rewards, credit.adv_content, strict=True):
        assert reward is not None  # every answer's is finite
        assert content is not None
        out.rows.append(_decision(hint, credit.adv_generate, replayed))
        out.rows.extend(_content(hint, content, replayed))
        out.decisions[hint.trial], out.rewards[hint.trial] = credit.adv_generate, reward
    return out


def _free(answers: Sequence[Answer], cfg: AdviceConfig, replayed: bool) -> Credited:
    silent = [a.decision is Decision.ABSTAIN for a in answers]
    lengths = [a.hint_tokens for a in answers]
    credited = sampled_decisions(
        silent,
        [a.reward for a in answers],
        lengths,
        l_max=cfg.max_tokens,
        length_weight=cfg.length_coef,
        std_floor=cfg.std_floor,
        gate=cfg.gate,
    )
    out = Credited()
    if len(answers) < 2:
        return out  # nobody to compare it with
    for answer, quiet, pair in zip(answers, silent, credited, strict=True):
        assert pair is not None  # every answer's reward is finite
        decision, content = pair
        cost = 0.0 if quiet else cfg.length_coef * min(answer.hint_tokens / cfg.max_tokens, 1.0)
        out.decisions[answer.trial], out.rewards[answer.trial] = decision, answer.reward - cost
        out.rows.append(_decision(answer, decision, replayed))
        if not quiet:
            out.rows.extend(_content(answer, content, replayed))
    spoke = [out.rewards[a.trial] for a, quiet in zip(answers, silent, strict=True) if not quiet]
    quiet_ones = [out.rewards[a.trial] for a, quiet in zip(answers, silent, strict=True) if quiet]
    out.v_gen = math.fsum(spoke) / len(spoke) if spoke else None
    out.v_abstain = math.fsum(quiet_ones) / len(quiet_ones) if quiet_ones else None
    if out.v_gen is not None and out.v_abstain is not None:
        out.gate = 1.0 if cfg.gate == "none" or out.v_gen > out.v_abstain else 0.0
    return out


def _decision(answer: Answer, advantage: float, replayed: bool) -> Row:
    """A decision is drawn by no engine, so no cut applies: top-k or top-p of the hint would forbid it."""
    turn = answer.turn
    assert turn.response_ids is not None
    assert turn.versions is not None
    assert turn.sampling is not None
    return Row(
        prompt=turn.prompt_ids,
        response=turn.response_ids[:1],
        engine=(math.nan,),
        versions=turn.versions[:1],
        sampling=Sampling(temperature=turn.sampling.temperature),
        advantage=advantage,
        trial=answer.trial,
        kind=turn.kind,
        replayed=replayed,
        part=Part.DECISION,
        image=turn.image,
    )


def _content(answer: Answer, advantage: float, replayed: bool) -> list[Row]:
    """The row of a hint; none if nothing was sampled behind the decision."""
    turn = answer.turn
    assert turn.response_ids is not None
    assert turn.logprobs is not None
    assert turn.versions is not None
    assert turn.sampling is not None
    row = Row(
        prompt=(*turn.prompt_ids, turn.response_ids[0]),
        response=turn.response_ids[1:],
        engine=turn.logprobs[1:],
        versions=turn.versions[1:],
        sampling=turn.sampling,
        advantage=advantage,
        trial=answer.trial,
        kind=turn.kind,
        forced=max(turn.forced - 1, 0),
        replayed=replayed,
        image=turn.image,
    )
    return [row] if row.trained else []


def _batch(
    trials: Sequence[Trial],
    usable: set[int],
    answers: Sequence[Answer],
    contexts: Sequence[Credited],
    rows: list[Row],
) -> RowBatch:
    trained: dict[int, int] = {}
    for row in rows:
        trained[row.trial] = trained.get(row.trial, 0) + row.trained
    records = []
    for i, trial in enumerate(trials):
        mine = [context for context in contexts if i in context.decisions]
        records.append(
            TrialRecord(
                trial.ticket,
                trial.member,
                math.fsum(context.rewards[i] for context in mine) if mine else None,
                tuple(context.decisions[i] for context in mine),
                trained.get(i, 0),
            )
        )
    rewards = [record.reward for record in records if record.reward is not None]
    versions = [v for row in rows for v in (min(row.versions), max(row.versions))]
    squares = [row.advantage**2 for row in rows]
    stats = RowStats(
        trials=len(trials),
        unusable_trials=len(trials) - len(usable),
        turns=len(answers),
        rows=len(rows),
        zero_rows=sum(abs(row.advantage) <= ZERO for context in contexts for row in context.rows),
        trained_tokens=sum(row.trained for row in rows),
        reward_mean=math.fsum(rewards) / len(rewards) if rewards else 0.0,
        advantage_rms=math.sqrt(math.fsum(squares) / len(squares)) if squares else 0.0,
        version_min=min(versions, default=None),
        version_max=max(versions, default=None),
    )
    return RowBatch(rows, stats, records, _numbers(answers, contexts))


def _numbers(answers: Sequence[Answer], contexts: Sequence[Credited]) -> dict[str, float]:
    """For reports; a mean over nothing is left out."""
    spoke = [a for a in answers if a.decision is Decision.GENERATE]
    both = [c for c in contexts if c.gate is not None]
    means: dict[str, list[float]] = {
        "abstain_share": [float(a.decision is Decision.ABSTAIN) for a in answers],
        "hint_tokens": [float(a.hint_tokens) for a in spoke],
        "v_gen": [c.v_gen for c in contexts if c.v_gen is not None],
        "v_abstain": [c.v_abstain for c in contexts if c.v_abstain is not None],
        "delta": [c.v_gen - c.v_abstain for c in both if c.v_gen is not None and c.v_abstain is not None],
        "gate_open_share": [c.gate for c in both if c.gate is not None],
    }
    return {
        "contexts": float(len(contexts)),
        "dead_groups": float(sum(c.dead for c in contexts)),
        **{name: math.fsum(values) / len(values) for name, values in means.items() if values},
    }
