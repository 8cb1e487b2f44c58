"""What the live view knows: phase, recent updates, ticket counts. Pure state, no output, no clock of its own.

`phase`, `recent` and `status` are replaced, never changed in place, so that a drawing thread may read them at
any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentmem.app.reporting.records import UpdateRecord, p_at_k_over

DIFFICULTY = ("easy", "hard")
WINDOW = 10
"""Updates that figures are averaged over."""

Count = int | float | str


@dataclass(frozen=True, slots=True)
class Phase:
    """What goes on now, and how much of it is done (None: unknown)."""

    text: str
    done: int | None = None
    total: int | None = None

    def __str__(self) -> str:
        if self.done is None:
            return self.text
        if not self.total:
            return f"{self.text} {self.done}"
        return f"{self.text} {self.done}/{self.total} ({100 * self.done // self.total} %)"


@dataclass(slots=True)
class Progress:
    """The state that a view draws. `updates`: of the whole run; `done`: of them before a resume."""

    updates: int
    done: int = 0
    phase: Phase = field(default_factory=lambda: Phase("starting"))
    recent: tuple[UpdateRecord, ...] = ()
    status: Mapping[str, Count] = field(default_factory=dict)

    def add(self, record: UpdateRecord) -> None:
        """Take in one update."""
        earlier = [r for r in self.recent if r.update < record.update]  # a restored learner goes back
        self.done = record.update
        self.recent = (*earlier, record)[-WINDOW:]

    def eta_s(self) -> float | None:
        """Seconds until the last update at the pace of the recent ones; None until there is a pace."""
        if self.done >= self.updates:
            return 0.0
        if len(self.recent) < 2:
            return None
        first, last = self.recent[0], self.recent[-1]
        return (last.t - first.t) / (last.update - first.update) * (self.updates - self.done)

    def figures(self) -> dict[str, str]:
        """Label -> text, over the recent updates; empty before the first."""
        recent = self.recent
        if not recent:
            return {}

        def mean(name: str) -> float | None:
            values = [v for v in (getattr(r, name) for r in recent) if v is not None]
            return sum(values) / len(values) if values else None

        shares = [f"p@{k} {p:.2f}" for k, p in enumerate(p_at_k_over(recent), start=1)]
        staleness, reward = mean("staleness_mean"), mean("reward_mean")
        return {
            "solved": "  ".join(shares) if shares else "no valid trial",
            "reward": "–" if reward is None else f"{reward:.2f}",
            "speed": f"{mean('trials_per_s'):,.1f} trials/s  {mean('tokens_per_s'):,.0f} tokens/s",
            "staleness": "–" if staleness is None else f"{staleness:.1f} (max {recent[-1].staleness_max})",
            **_advice(recent),
            "idle": f"learner {mean('learner_idle'):.0%}  rollout {mean('rollout_idle'):.0%}",
        }

    def tickets(self) -> str:
        """The counts of the last status."""
        return "  ".join(f"{name} {value}" for name, value in self.status.items())

    def line(self, elapsed_s: float) -> str:
        """Everything as one plain line; in a phase of its own length (an evaluation), that alone."""
        parts = [clock(elapsed_s), str(self.phase)]
        if self.phase.done is not None:
            return " | ".join(parts)
        if self.recent:
            parts.append(f"update {self.done}/{self.updates}")
            eta = self.eta_s()
            parts.append(f"ETA {'–' if eta is None else clock(eta)}")
            figures = self.figures()
            parts += [figures["solved"], figures["speed"]]
            parts += [
                f"{name} {figures[name]}" for name in ("staleness", "abstains", "idle") if name in figures
            ]
        if self.status:
            parts.append(f"tickets {self.tickets()}")
        return " | ".join(parts)


def _advice(recent: tuple[UpdateRecord, ...]) -> dict[str, str]:
    """Mem-π: how often the policy itself would abstain, on all tasks, easy and hard ones; else nothing."""
    told = []
    for label, count, share in (
        ("", "asked", "abstains"),
        *((f"{d} ", d, f"abstains_{d}") for d in DIFFICULTY),
    ):
        of = [(r.advice[count], r.advice[share]) for r in recent if share in r.advice]
        asked = sum(n for n, _ in of)
        if asked:
            told.append(f"{label}{sum(n * s for n, s in of) / asked:.0%}")
    return {"abstains": "  ".join(told)} if told else {}


def clock(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
