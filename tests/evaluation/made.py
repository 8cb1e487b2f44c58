"""Lines of trials for tests: what matters is given, the rest is plain."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.evaluation.lines import EpisodeLine, TrialLine


def episode(actions: Sequence[str] = ("a",), solved: bool = False, path: str | None = None) -> EpisodeLine:
    return EpisodeLine(
        solved=solved,
        stop="success" if solved else "failure",
        score=None,
        actions=list(actions),
        invalid=0,
        path="/".join(actions) if path is None else path,
    )


def trial(
    *episodes: EpisodeLine,
    instance: str | int = 0,
    sample: int = 0,
    seed: int = 0,
    condition: str = "with_memory",
    tokens: dict[str, int] | None = None,
    wall_s: float = 1.0,
    update: int = 0,
) -> TrialLine:
    return TrialLine(
        update=update,
        condition=condition,
        seed=seed,
        instance=instance,
        sample=sample,
        episodes=list(episodes) or [episode()],
        score=None,
        tokens=tokens or {"act": sum(len(e.actions) for e in episodes)},
        prompt_tokens=10,
        wall_s=wall_s,
    )


def outcome(solved_in: int, episodes: int = 3, **further: int | str) -> TrialLine:
    """A trial solved in an episode (from 1), or in none (0)."""
    played = [episode((f"a{n}",), solved=n == solved_in) for n in range(1, (solved_in or episodes) + 1)]
    return trial(*played, **further)  # type: ignore[arg-type]
