"""Groups of trials -> training rows: one row per turn of the trained policy, with its advantage.

The learning reward of an act turn is its reward, minus the environment's `invalid_penalty` if the turn was
invalid, plus its intrinsic reward where there is one. A trial that failed, or whose reward is None or not
finite, has no rows and is nobody's peer. `act` and `reflect` turns are trained; a reflection that no episode
follows has no return and so no row. A trial that was rolled out with tips to be trained without them (EMPO²'s
off-policy mode) gives rows on its turns' student prompts.

Baselines are the business of `learner.credit`; here its advantages are scaled over the whole batch, and rows
that teach nothing are left out and counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from agentmem.failures import AgentMemError
from agentmem.memory.modes import UpdateMode
from agentmem.sampling import Sampling
from agentmem.trajectory import Episode, Trial, Turn, TurnKind
from learner.credit.assign import Credit, assign
from learner.credit.gae import explained_variance
from learner.credit.scaling import divide_by_rms
from learner.credit.trial import EpisodeRewards, TrialAdvantages, TrialRewards, usable_rewards
from learner.row import Row, RowBatch, RowStats, TrialRecord

if TYPE_CHECKING:
    from agentmem.config.learning import CreditConfig

T = TypeVar("T")

ZERO = 1e-9
"""An advantage no larger is zero: equal rewards may differ from their mean by rounding."""

Values = Sequence[Sequence[Sequence[Sequence[float]] | None]]
"""[group][trial][episode][turn]: PPO's value estimates; None for a trial that is not usable."""

Intrinsic = Sequence[Sequence[Sequence[Sequence[float]] | None]]
"""[group][trial][episode][act turn]: what is added to the rewards; None for a trial that gets nothing."""


def credit_of(config: CreditConfig) -> Credit:
    """The configuration section as credit assignment's own parameters."""
    return Credit(
        estimator=config.estimator,
        gamma_step=config.gamma_step,
        gamma_traj=config.gamma_traj,
        return_form=config.return_form,
        norm=config.norm,
        omega=config.omega,
        anchor_scope=config.anchor_scope,
        baseline=config.baseline,
        lam=config.gae_lambda,
    )


def build_rows(
    groups: Sequence[Sequence[Trial]],
    config: CreditConfig,
    *,
    policy: str = "agent",
    invalid_penalty: float = 0.0,
    values: Values | None = None,
    replayed: int = 0,
    intrinsic: Intrinsic | None = None,
) -> RowBatch:
    """Rows of an update in the order of groups, trials and turns. `values` is for PPO alone. The last
    `replayed` groups were drawn from the replay table. `intrinsic` is added to the rewards of act turns."""
    new_trials = sum(len(group) for group in groups[: len(groups) - replayed])
    credit = credit_of(config)
    rewards = [
        [
            trial_rewards(trial, invalid_penalty, None if intrinsic is None else intrinsic[g][i])
            for i, trial in enumerate(group)
        ]
        for g, group in enumerate(groups)
    ]
    assigned: list[TrialAdvantages | None] = []
    for g, group in enumerate(rewards):
        assigned.extend(assign(group, credit, values[g] if values is not None else None))
    scaled, rms = divide_by_rms(assigned)
    advantages = scaled if config.scale_by_rms else assigned

    rows: list[Row] = []
    records: list[TrialRecord] = []
    zero = turns = invalid = acts = unusable = 0
    totals: list[float] = []
    for i, (trial, learned, credited) in enumerate(
        zip(_flat(groups), _flat(rewards), advantages, strict=True)
    ):
        if credited is None:
            unusable += 1
            records.append(TrialRecord(trial.ticket, trial.member, None, (), 0))
            continue
        total = math.fsum(r for e in learned.episodes for r in e.rewards if r is not None)
        totals.append(total)
        tokens = 0
        for turn, advantage, target in _credited(trial, credited):
            if turn.kind is TurnKind.ACT:
                acts += 1
                invalid += turn.invalid
            if turn.policy != policy or (turn.kind is TurnKind.REFLECT and not config.train_reflections):
                continue
            turns += 1
            if abs(advantage) <= ZERO and config.drop_zero_advantage and target is None:
                zero += 1
                continue
            off = trial.mode.draw == UpdateMode.OFF_POLICY
            row = _row(turn, advantage, i, target, i >= new_trials, off)
            if row.trained or target is not None:
                rows.append(row)
                tokens += row.trained
        records.append(TrialRecord(trial.ticket, trial.member, total, tuple(credited.rows()), tokens))
    versions = [v for row in rows for v in (min(row.versions), max(row.versions)) if row.versions]
    stats = RowStats(
        trials=len(records),
        unusable_trials=unusable,
        turns=turns,
        rows=len(rows),
        zero_rows=zero,
        trained_tokens=sum(row.trained for row in rows),
        reward_mean=math.fsum(totals) / len(totals) if totals else 0.0,
        intrinsic_mean=_mean_sum(intrinsic, assigned),
        advantage_rms=rms,
        invalid_share=invalid / acts if acts else 0.0,
        version_min=min(versions, default=None),
        version_max=max(versions, default=None),
        explained_variance=explained_variance(assigned),
    )
    return RowBatch(rows, stats, records)


def _mean_sum(intrinsic: Intrinsic | None, assigned: Sequence[TrialAdvantages | None]) -> float:
    if intrinsic is None:
        return 0.0
    sums = [
        math.fsum(paid for episode in trial or () for paid in episode)
        for trial, credited in zip(_flat(intrinsic), assigned, strict=True)
        if credited is not None
    ]
    return math.fsum(sums) / len(sums) if sums else 0.0


def value_rows(
    groups: Sequence[Sequence[Trial]], invalid_penalty: float = 0.0
) -> tuple[list[Row], list[tuple[int, int, int, int]]]:
    """PPO: rows without a response, one per act turn of a usable trial, and each one's place in `Values`."""
    rows: list[Row] = []
    places: list[tuple[int, int, int, int]] = []
    for g, group in enumerate(groups):
        for i, trial in enumerate(group):
            if usable_rewards(trial_rewards(trial, invalid_penalty)) is None:
                continue
            for n, episode in enumerate(trial.episodes):
                for t, turn in enumerate(_acts(episode.turns)):
                    rows.append(Row(turn.prompt_ids, (), (), (), Sampling(), 0.0, 0, value_target=0.0))
                    places.append((g, i, n, t))
    return rows, places


def shape_values(
    groups: Sequence[Sequence[Trial]], places: Sequence[tuple[int, int, int, int]], values: Sequence[float]
) -> Values:
    """Value estimates, one for each of `places`, in the shape that credit assignment wants."""
    shaped: list[list[list[list[float]] | None]] = [[None] * len(group) for group in groups]
    for (g, i, n, _), value in zip(places, values, strict=True):
        trial = shaped[g][i]
        if trial is None:
            trial = shaped[g][i] = [[] for _ in groups[g][i].episodes]
        trial[n].append(value)
    return shaped


def trial_rewards(
    trial: Trial, invalid_penalty: float, intrinsic: Sequence[Sequence[float]] | None = None
) -> TrialRewards:
    """The learning rewards of a trial, in the form of credit assignment. `intrinsic`: [episode][act turn]."""
    return TrialRewards(
        episodes=tuple(
            EpisodeRewards(
                rewards=_rewards(episode, invalid_penalty, None if intrinsic is None else intrinsic[n]),
                observations=tuple(turn.observation for turn in _acts(episode.turns)),
            )
            for n, episode in enumerate(trial.episodes)
        ),
        reflections=min(len(trial.reflections), max(len(trial.episodes) - 1, 0)),
        valid=trial.valid,
    )


def _rewards(
    episode: Episode, invalid_penalty: float, intrinsic: Sequence[float] | None
) -> tuple[float | None, ...]:
    learned = tuple(_learning_reward(turn, invalid_penalty) for turn in _acts(episode.turns))
    if intrinsic is None:
        return learned
    return tuple(None if r is None else r + i for r, i in zip(learned, intrinsic, strict=True))


def _learning_reward(turn: Turn, invalid_penalty: float) -> float | None:
    if turn.reward is None or not turn.invalid:
        return turn.reward
    return turn.reward - invalid_penalty


def _acts(turns: Sequence[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.kind is TurnKind.ACT]


def _credited(trial: Trial, advantages: TrialAdvantages) -> Iterator[tuple[Turn, float, float | None]]:
    """Each turn that has an advantage, with it and with its value target."""
    for n, (episode, row) in enumerate(zip(trial.episodes, advantages.act, strict=True)):
        targets = advantages.value_targets[n] if advantages.value_targets is not None else [None] * len(row)
        yield from zip(_acts(episode.turns), row, targets, strict=True)
    for turn, advantage in zip(trial.reflections, advantages.reflect, strict=False):
        yield turn, advantage, None


def _row(
    turn: Turn, advantage: float, trial: int, target: float | None, replayed: bool, off_policy: bool
) -> Row:
    if turn.response_ids is None or turn.logprobs is None or turn.versions is None:
        raise AgentMemError(
            f"a {turn.kind} turn of policy '{turn.policy}' has no token ids: it can't be trained"
        )
    if not turn.prompt_ids:
        raise AgentMemError(f"a {turn.kind} turn of policy '{turn.policy}' has an empty prompt")
    if turn.sampling is None:
        raise AgentMemError(f"a {turn.kind} turn of policy '{turn.policy}' has no sampling parameters")
    student = turn.student_prompt_ids if off_policy else None
    return Row(
        prompt=turn.prompt_ids if student is None else student,
        response=turn.response_ids,
        engine=turn.logprobs,
        versions=turn.versions,
        sampling=turn.sampling,
        advantage=advantage,
        trial=trial,
        kind=turn.kind,
        forced=turn.forced,
        value_target=target,
        replayed=replayed,
        off_policy=student is not None,
    )


def _flat(nested: Sequence[Sequence[T]]) -> Iterator[T]:
    for inner in nested:
        yield from inner
