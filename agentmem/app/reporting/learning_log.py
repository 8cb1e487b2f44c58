"""Recorded results: `benchmarks/results/learning.jsonl`, one line for each finished run with `--record`.

`before` and `after` map an evaluation condition (`with_memory`, `without_memory`, or the name of an arm) to
`{"p_at_k": [...], "n": 512, "score": mean or null}`. Lines are checked when written and when read: an unknown
or missing field, a share outside [0, 1] or a p@k that falls with k is an error that names the line.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agentmem.app.reporting.records import Condition, EvalRecord, Record, UpdateRecord, updates_of
from agentmem.app.reporting.table import before_and_after
from agentmem.config import RunConfig
from agentmem.config.load import hidden
from agentmem.failures import AgentMemError

_ROOT = Path(__file__).resolve().parents[2]


class Measured(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One evaluation: p@1, p@2, … of `n` held-out instances, and the benchmark's mean score or null."""

    p_at_k: list[float]
    n: int
    score: float | None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n is {self.n}: at least 1 instance")
        if not self.p_at_k or not all(0 <= p <= 1 for p in self.p_at_k):
            raise ValueError(f"p_at_k is {self.p_at_k}: one or more shares in [0, 1]")
        if self.p_at_k != sorted(self.p_at_k):
            raise ValueError(f"p_at_k is {self.p_at_k}: must not fall with k")


class LearningLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One finished run. `tokens`: sampled in training; `wall_s`, `cpu_s`: training without set-up."""

    recipe: str
    overrides: list[str]
    seed: int
    commit: str
    arm: str
    before: dict[str, Measured]
    after: dict[str, Measured]
    updates: int
    trials: int
    tokens: int
    wall_s: float
    cpu_s: float
    notes: str
    episodes: int | None = None
    """Episodes played in training; absent from lines older than the field."""

    def __post_init__(self) -> None:
        if not self.recipe:
            raise ValueError("recipe is empty")
        if not self.after:
            raise ValueError("after is empty: a result needs an evaluation after training")
        for name in ("updates", "trials", "tokens", "wall_s", "cpu_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: must be at least 0")
        if self.episodes is not None and self.episodes < self.trials:
            raise ValueError(f"episodes is {self.episodes}: at least one for each of {self.trials} trials")


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LearningLine)


def default_path() -> Path:
    """In a checkout its own results; for an installed package, below the working directory."""
    root = _ROOT if (_ROOT / "pyproject.toml").is_file() else Path.cwd()
    return root / "benchmarks" / "results" / "learning.jsonl"


def learning_line(
    config: RunConfig,
    records: Sequence[Record],
    *,
    overrides: Sequence[str] = (),
    arm: str = "",
    cpu_s: float = 0.0,
    notes: str = "",
    commit: str | None = None,
) -> LearningLine:
    """The line of a finished run from its records. Raises AgentMemError if it wasn't evaluated at its end."""
    updates = updates_of(records)
    before: dict[str, Measured] = {}
    after: dict[str, Measured] = {}
    pairs = before_and_after(records)
    for condition, pair in pairs.items():
        if pair.after is not None:
            before[condition] = _measured(pair.before)
            after[condition] = _measured(pair.after)
    trained = updates[-1].update if updates else 0
    late: list[Condition] = [c for c, p in pairs.items() if p.after is None or p.after.update != trained]
    if not after or late:
        missing = ", ".join(late) or "any condition"
        raise AgentMemError(
            f"nothing to record: no evaluation after the last update ({trained}) for {missing}"
        )
    return LearningLine(
        recipe=config.recipe,
        overrides=[hidden(override) for override in overrides],
        seed=config.seed,
        commit=_commit() if commit is None else commit,
        arm=arm,
        before=before,
        after=after,
        updates=trained,
        trials=sum(u.trials for u in updates),
        tokens=sum(u.sampled_tokens + u.tip_tokens for u in updates),
        wall_s=round(updates[-1].t if updates else 0.0, 1),
        cpu_s=round(cpu_s, 1),
        notes=notes,
        episodes=sum(episodes_of(u) for u in updates),
    )


def episodes_of(update: UpdateRecord) -> int:
    """Episodes that an update's trials played: a trial goes on to episode k + 1 if it isn't solved within k.

    Trials that failed for reasons of infrastructure have no p@k and are counted like the others.
    """
    return round(update.trials * (1 + sum(1 - p for p in update.p_at_k[:-1])))


def append_line(line: LearningLine, path: Path | None = None) -> Path:
    """Append one line (one write, so that runs may finish together); returns the file."""
    path = default_path() if path is None else path
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        file.write(_encoder.encode(line) + b"\n")
    return path


def read_lines(path: Path | None = None) -> list[LearningLine]:
    """All lines, checked; none if there is no file. Raises AgentMemError naming file and line."""
    path = default_path() if path is None else path
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            found.append(_decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise AgentMemError(f"{path}, line {number}: no valid result: {error}") from error
    return found


def _measured(record: EvalRecord) -> Measured:
    return Measured(p_at_k=record.p_at_k, n=record.n, score=record.score)


def _commit() -> str:
    """The checkout's commit, with `-dirty` for uncommitted changes; `unknown` outside a checkout.

    Recorded results are no change: else every run of a series but its first were dirty.
    """

    def git(*args: str) -> str:
        answer = subprocess.run(
            ["git", "-C", str(_ROOT), *args], capture_output=True, text=True, timeout=10, check=True
        )
        return answer.stdout.strip()

    try:
        dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
        return git("rev-parse", "--short=12", "HEAD") + ("-dirty" if dirty else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
