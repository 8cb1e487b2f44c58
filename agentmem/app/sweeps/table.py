"""What a sweep has shown, in plain tables made of recorded lines alone: success, seeds, differences, costs.

- An arm's p@k is over the held-out instances of all its seeds together, with Wilson's interval.
- A difference has Newcombe's interval over the same pooled instances. Both hold for the weights that were
  evaluated. How much training itself varies is told by the columns of single seeds and by Student's interval
  over the seeds' differences; every seed plays the same held-out instances unless `evaluation.seed` differs.
- Runs that aren't recorded are named, never filled in.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentmem.app.reporting.learning_log import LearningLine, Measured
from agentmem.app.reporting.records import CONDITIONS
from agentmem.app.reporting.table import aligned
from agentmem.app.sweeps.plan import Arm, Contrast, Sweep, arm_and_condition, by_key
from agentmem.evaluation.difference import Difference, difference, over_seeds
from agentmem.evaluation.pass_at_k import Share, wilson

WIDTH = 112
_MEMORY = {"with_memory": "with", "without_memory": "without"}


@dataclass(frozen=True, slots=True)
class ArmResult:
    """The recorded runs of an arm, by seed in the sweep's order."""

    arm: Arm
    lines: dict[int, LearningLine]

    def measured(self, condition: str) -> dict[int, Measured]:
        """Seed -> its last evaluation under a condition."""
        return {seed: line.after[condition] for seed, line in self.lines.items() if condition in line.after}

    def pooled(self, condition: str) -> list[Share]:
        """p@1, p@2, … of all seeds together; none if no seed was evaluated under the condition."""
        return pool(list(self.measured(condition).values()))


def pool(evaluations: Sequence[Measured]) -> list[Share]:
    """The shares of several evaluations together, as far as all of them go in k."""
    n = sum(e.n for e in evaluations)
    ks = min((len(e.p_at_k) for e in evaluations), default=0)
    return [wilson(sum(round(e.p_at_k[k] * e.n) for e in evaluations), n) for k in range(ks)]


def sweep_tables(sweep: Sweep, recorded: Sequence[LearningLine]) -> str:
    """All tables of a sweep."""
    lines = by_key(recorded)
    results = []
    for arm in sweep.arms:
        own = {seed: lines.get(sweep.run(arm, seed).key) for seed in sweep.seeds}
        results.append(ArmResult(arm, {seed: line for seed, line in own.items() if line is not None}))
    missing = [str(run) for run in sweep.runs() if run.key not in lines]
    parts = [sweep.title] if sweep.title else []
    if missing:
        parts.append(_wrapped(f"Not recorded yet: {'; '.join(missing)}."))
    if any(result.lines for result in results):
        parts += [_success(results), _by_seed(sweep, results)]
        parts += _differences(sweep, results)
        parts += [_costs(results), _origin(results)]
    return "\n\n".join(parts)


def _ks(results: Iterable[ArmResult]) -> int:
    return max(len(m.p_at_k) for r in results for line in r.lines.values() for m in line.after.values())


def _success(results: Sequence[ArmResult]) -> str:
    ks = _ks(results)
    header = ["arm", "memory", "seeds", "n", *(f"p@{k + 1}" for k in range(ks)), f"p@{ks} before"]
    body = []
    for result in results:
        for condition in CONDITIONS:
            shares = result.pooled(condition)
            if not shares:
                continue
            early = pool([x.before[condition] for x in result.lines.values() if condition in x.before])
            body.append(
                [
                    result.arm.name,
                    _MEMORY[condition],
                    str(len(result.measured(condition))),
                    str(shares[0].n),
                    *(_share(shares[k]) if k < len(shares) else "-" for k in range(ks)),
                    _plain(early[ks - 1].value) if len(early) == ks else "-",
                ]
            )
    note = "Held-out success after training; [ ]: 95 % Wilson intervals over the boards of all seeds."
    return "\n".join([note, "", *aligned(header, body)])


def _by_seed(sweep: Sweep, results: Sequence[ArmResult]) -> str:
    body = []
    for result in results:
        for condition in CONDITIONS:
            found = result.measured(condition)
            if found:
                cells = [_joined(found[s].p_at_k) if s in found else "-" for s in sweep.seeds]
                body.append([result.arm.name, _MEMORY[condition], *cells])
    header = ["arm", "memory", *(f"seed {seed}" for seed in sweep.seeds)]
    return "\n".join([f"The same by seed, {_names(_ks(results))}.", "", *aligned(header, body)])


def _differences(sweep: Sweep, results: Sequence[ArmResult]) -> list[str]:
    """Two tables: over pooled instances, and by seed. Without a list: each arm against the first."""
    first = sweep.arms[0].name
    contrasts = sweep.differences or [Contrast(of=arm.name, over=first) for arm in sweep.arms[1:]]
    by_name = {result.arm.name: result for result in results}
    pooled, seeded = [], []
    for contrast in contrasts:
        (a, a_memory), (b, b_memory) = arm_and_condition(contrast.of), arm_and_condition(contrast.over)
        left, right = by_name[a].measured(a_memory), by_name[b].measured(b_memory)
        common = [seed for seed in sweep.seeds if seed in left and seed in right]
        if not common:
            continue
        what = f"{_side(a, a_memory)} - {_side(b, b_memory)}"
        pairs = list(zip(pool([left[s] for s in common]), pool([right[s] for s in common]), strict=False))
        pooled.append([what, *(_difference(difference(x, y)) for x, y in pairs)])
        single = {s: [x - y for x, y in zip(left[s].p_at_k, right[s].p_at_k, strict=False)] for s in common}
        seeded.append(
            [
                what,
                *("/".join(f"{d:+.3f}" for d in single[s]) if s in single else "-" for s in sweep.seeds),
                _difference(over_seeds([d[-1] for d in single.values()])),
            ]
        )
    if not pooled:
        return []
    ks = _ks(results)
    header = ["difference", *(f"p@{k + 1}" for k in range(ks))]
    seeds = ["difference", *(f"seed {seed}" for seed in sweep.seeds), f"p@{ks} over seeds"]
    return [
        "\n".join(
            [
                "Differences over the seeds that both have; [ ]: 95 % Newcombe intervals over their boards.",
                "",
                *aligned(header, pooled),
            ]
        ),
        "\n".join(
            [
                f"The same by seed, {_names(ks)}; last: mean with Student's 95 % interval over seeds.",
                "",
                *aligned(seeds, seeded),
            ]
        ),
    ]


def _costs(results: Sequence[ArmResult]) -> str:
    body = []
    for result in results:
        own = list(result.lines.values())
        if not own:
            continue
        episodes = [line.episodes for line in own if line.episodes is not None]
        walls = [line.wall_s for line in own]
        body.append(
            [
                result.arm.name,
                _mean(line.updates for line in own),
                _mean(line.trials for line in own),
                _mean(episodes) if len(episodes) == len(own) else "-",
                _mean(line.tokens for line in own),
                f"{_mean(walls)} ({min(walls):.0f}-{max(walls):.0f})",
                _mean(line.cpu_s for line in own),
            ]
        )
    header = ["arm", "updates", "trials", "episodes", "tokens", "wall_s", "cpu_s"]
    note = (
        "Costs of training, means over seeds: trials and episodes played, tokens sampled (reflections too), "
        "seconds from the start of the parts to the last update, the evaluation before them included (least "
        "and most), CPU seconds of all parts."
    )
    return "\n".join([_wrapped(note), "", *aligned(header, body)])


def _origin(results: Sequence[ArmResult]) -> str:
    lines = [line for result in results for line in result.lines.values()]
    commits = ", ".join(sorted({line.commit for line in lines}))
    notes = "; ".join(dict.fromkeys(line.notes for line in lines if line.notes))
    return _wrapped(f"Recorded with commit {commits}." + (f" Notes: {notes}." if notes else ""))


def _side(name: str, condition: str) -> str:
    return name if condition == "with_memory" else f"{name} (no memory)"


def _share(share: Share) -> str:
    return f"{_plain(share.value)} [{_plain(share.low)}-{_plain(share.high)}]"


def _difference(found: Difference | None) -> str:
    return "-" if found is None else f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _plain(share: float) -> str:
    return f"{share:.3f}"


def _joined(shares: Sequence[float]) -> str:
    return "/".join(_plain(p) for p in shares)


def _names(ks: int) -> str:
    return "/".join(f"p@{k + 1}" for k in range(ks))


def _mean(values: Iterable[float]) -> str:
    return f"{statistics.fmean(values):,.0f}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)
