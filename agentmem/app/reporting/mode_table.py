"""EMPO²: what training trials did with tips and without: the realised shares, and the memory gap in training.

Trials of different updates were played by different weights, so the gap is between the same stretches of a
run only as far as modes alternate within them. A policy that ignores its tips shows a gap of zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.app.reporting.records import Record, UpdateRecord, updates_of
from agentmem.app.reporting.table import aligned
from agentmem.evaluation.difference import difference
from agentmem.evaluation.pass_at_k import wilson
from agentmem.memory.modes import UpdateMode

WINDOW = 50
"""Updates at the end of the run that the gap is taken over."""


def mode_table(records: Sequence[Record]) -> str:
    """A row a mode, and the gap over the last `WINDOW` updates; empty if no update had a mode."""
    updates = updates_of(records)
    whole, last = _counts(updates), _counts(updates[-WINDOW:])
    if not whole:
        return ""
    total = sum(trials for trials, _ in whole.values())
    body = []
    for mode in UpdateMode:
        trials, solved = whole.get(mode, (0, 0))
        if trials:
            share = wilson(solved, trials)
            cell = f"{share.value:.3f} [{share.low:.3f}-{share.high:.3f}]"
            body.append([mode.value, str(trials), f"{trials / total:.2f}", cell])
    lines = aligned(["mode", "trials", "share", "solved in training"], body)
    with_tips = [last.get(mode, (0, 0)) for mode in UpdateMode if mode.recalls]
    n, solved = sum(t for t, _ in with_tips), sum(s for _, s in with_tips)
    plain, plain_solved = last.get(UpdateMode.PLAIN, (0, 0))
    if n and plain:
        gap = difference(wilson(solved, n), wilson(plain_solved, plain))
        lines.append(
            f"memory gap in training, last {min(WINDOW, len(updates))} updates: "
            f"{gap.value:+.3f} [{gap.low:+.3f} {gap.high:+.3f}] (with tips minus without)"
        )
    return "\n".join(lines)


def _counts(updates: Sequence[UpdateRecord]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for update in updates:
        for mode, (trials, solved) in update.modes.items():
            before = found.get(mode, (0, 0))
            found[mode] = (before[0] + trials, before[1] + solved)
    return found
