"""From an update's groups and result to its line in `metrics.jsonl`, and to the groups' outcomes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agentmem.app.reporting.records import UpdateRecord
from agentmem.chat.decision import Decision
from agentmem.evaluation.pass_at_k import pass_at_k
from agentmem.memory.advice_health import Choice, health_of
from agentmem.memory.advisor import decide, p_generate_of
from agentmem.replay import Group, Outcome
from agentmem.trajectory import Trial, TurnKind

if TYPE_CHECKING:
    from learner.result import UpdateResult


ADVICE = frozenset(
    {
        "contexts",
        "dead_groups",
        "abstain_share",
        "hint_tokens",
        "v_gen",
        "v_abstain",
        "delta",
        "gate_open_share",
        "decision_loss",
        "content_loss",
        "example_loss",
        "generate_share",
    }
)
"""Metrics of Mem-π's learner that its records keep, with the histogram of p(generate)."""
HEALTH = ("asked", "abstains", "easy", "abstains_easy", "hard", "abstains_hard")
"""Of the policy's own choices; `abstain_share` is the share of branches."""


def make_record(
    groups: Sequence[Group],
    result: UpdateResult,
    *,
    update: int,
    t: float,
    age: Callable[[int], int],
    wait_s: float,
    update_s: float,
    push_s: float,
    rollout_idle: float,
    max_episodes: int,
    replayed: int = 0,
    tip_tokens: int = 0,
    threshold: float = 0.0,
) -> UpdateRecord:
    """`age`: how many updates a weight version was behind those that trained. `replayed`: groups that were
    drawn from the replay table besides. `threshold`: Mem-π's τ. `wait_s`, `update_s`, `push_s`: seconds of
    the driver's loop, which make up the whole update.
    """
    trials = [trial for group in groups for trial in group.trials]
    valid = [trial for trial in trials if trial.valid]
    shares = (
        pass_at_k([[e.success for e in trial.episodes] for trial in valid], max_episodes) if valid else []
    )
    ages = staleness(valid, age)
    wall = max(wait_s + update_s + push_s, 1e-9)
    counts = [trial.token_counts() for trial in trials]
    sampled = sum(sum(c.values()) for c in counts)
    metrics = result.metrics
    return UpdateRecord(
        update=update,
        version=result.version,
        t=t,
        trials=len(trials),
        groups=[group.id for group in groups],
        replayed_groups=replayed,
        p_at_k=[share.value for share in shares],
        reward_mean=result.rows.reward_mean,
        staleness_mean=sum(ages) / len(ages) if ages else None,
        staleness_max=max(ages, default=0),
        rows=result.rows.rows,
        dropped_rows=result.rows.zero_rows,
        policy_loss=metrics.get("policy_loss"),
        entropy=metrics.get("entropy"),
        grad_norm=metrics.get("grad_norm"),
        lr=metrics.get("lr", 0.0),
        clip_fraction=metrics.get("clip_fraction"),
        mismatch_kl=metrics.get("mismatch_kl"),
        ratio_mean=metrics.get("ratio_mean"),
        value_loss=metrics.get("value_loss"),
        explained_variance=result.rows.explained_variance,
        sampled_tokens=sampled,
        trained_tokens=int(metrics.get("tokens_trained", 0)),
        wait_s=wait_s,
        update_s=update_s,
        push_s=push_s,
        learner_idle=(wait_s + push_s) / wall,
        rollout_idle=rollout_idle,
        trials_per_s=len(trials) / wall,
        tokens_per_s=sampled / wall,
        invalid_share=result.rows.invalid_share,
        tip_tokens=tip_tokens,
        reflection_tokens=sum(c.get(TurnKind.REFLECT, 0) for c in counts),
        modes=by_mode(valid),
        intrinsic_mean=result.rows.intrinsic_mean,
        advice_tokens=sum(c.get(TurnKind.ADVISE, 0) for c in counts),
        advice=_advice(groups, metrics, threshold),
        domains=domain_counts(groups, threshold),
        off_policy={k: v for k, v in metrics.items() if k.startswith(("on_policy_", "off_policy_"))},
    )


def _advice(groups: Sequence[Group], metrics: Mapping[str, float], threshold: float) -> dict[str, float]:
    """The learner's numbers, and what the policy itself chose; empty without a memory policy."""
    found = {k: metrics[k] for k in metrics if k in ADVICE or k.startswith("p_generate")}
    if found.get("contexts"):
        found["dead_share"] = found.get("dead_groups", 0.0) / found["contexts"]
    health = health_of(choice for group in groups for choice in choices_of(group.trials, threshold))
    if health.asked:
        told = {k: getattr(health, k) for k in HEALTH}
        found |= {k: float(value) for k, value in told.items() if value is not None}
    turns = [turn for group in groups for trial in group.trials for turn in trial.advice]
    if turns:
        found["late"] = float(sum(not turn.policy for turn in turns))
    return found


def choices_of(trials: Sequence[Trial], threshold: float) -> list[Choice]:
    """What the memory policy would have done in a group's trials, and how its task fares without a hint."""
    alone = [
        trial.success
        for trial in trials
        if trial.valid and trial.advice and all(t.actions == (Decision.ABSTAIN,) for t in trial.advice)
    ]
    share = sum(alone) / len(alone) if alone else None
    return [
        Choice(
            abstains=decide(gap, threshold) is Decision.ABSTAIN, p_generate=p_generate_of(gap), alone=share
        )
        for trial in trials
        for turn in trial.advice
        if (gap := turn.gap) is not None
    ]


def by_mode(trials: Sequence[Trial]) -> dict[str, list[int]]:
    """[trials, solved ones] by the mode that was drawn for them; none if none was."""
    found: dict[str, list[int]] = {}
    for trial in trials:
        if trial.mode.draw:
            counts = found.setdefault(trial.mode.draw, [0, 0])
            counts[0] += 1
            counts[1] += trial.success
    return found


def domain_counts(groups: Sequence[Group], threshold: float) -> dict[str, dict[str, float]]:
    """See `UpdateRecord.domains`; none where the environment is no mixture."""
    found: dict[str, dict[str, float]] = {}
    for group in groups:
        trials = [trial for trial in group.trials if trial.valid]
        domain = group.trials[0].task.domain
        if not domain:
            continue
        counts = found.setdefault(domain, {"groups": 0, "trials": 0, "solved": 0})
        gaps = [turn.gap for trial in trials for turn in trial.advice if turn.gap is not None]
        more = {
            "groups": 1,
            "trials": len(trials),
            "solved": sum(trial.success for trial in trials),
            **{
                f"{what}_{branch}": sum(measure)
                for branch in ("generate", "abstain")
                for what, measure in (
                    ("trials", [trial.mode.advice == branch for trial in trials]),
                    ("solved", [trial.mode.advice == branch and trial.success for trial in trials]),
                )
                if any(trial.mode.advice == branch for trial in trials)
            },
        }
        if gaps:
            more |= {"choices": len(gaps), "would_abstain": sum(gap <= threshold for gap in gaps)}
        for name, count in more.items():
            counts[name] = counts.get(name, 0) + count
    return found


def outcomes(groups: Sequence[Group], result: UpdateResult) -> dict[Outcome, list[str]]:
    """What became of an update's groups: trained, or filtered, as no token of theirs had a gradient (every
    member was rewarded alike, or none could be used). An outcome that no group had is left out.
    """
    tokens = {record.ticket: record.tokens for record in result.records}
    ends: dict[Outcome, list[str]] = {}
    for group in groups:
        learned = any(tokens.get(trial.ticket, 0) for trial in group.trials)
        ends.setdefault(Outcome.TRAINED if learned else Outcome.FILTERED, []).append(group.id)
    return ends


def staleness(trials: Sequence[Trial], age: Callable[[int], int]) -> list[int]:
    """For each sampled token: how many updates older its weights were than those that trained on it."""
    return [age(v) for trial in trials for turn in trial.learning_turns() for v in turn.versions or ()]
