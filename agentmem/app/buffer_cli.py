"""`agentmem buffer inspect|tail|export|dead RUN`: what a run's replay buffer holds, for people.

Nothing is changed by looking. RUN is an id, a path, or `last`, running or not; for a run whose buffer is on a
server of somebody else, the URL of its configuration is used, with the password of
`AGENTMEM_REDIS_PASSWORD`, or `--url`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentmem.app.reporting.run_buffer import open_buffer

if TYPE_CHECKING:
    from agentmem.replay import Counters, ReplayBuffer
    from agentmem.replay.look import StoredTrial
    from agentmem.trajectory import Trial

app = typer.Typer(help="A run's replay buffer: inspect, tail, export, dead.", no_args_is_help=True)

Run = Annotated[str, typer.Argument(help="Run: id, path, or `last`.")]
Url = Annotated[str | None, typer.Option("--url", help="The replay server, if the run can't tell it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def inspect(run: Run, url: Url = None, as_json: AsJson = False) -> None:
    """Counters with their identity, groups, tips, bytes, drops, leases and cursors."""
    from agentmem.replay.inspect import summary

    with open_buffer(run, url) as buffer:
        seen = summary(buffer)
        counters = buffer.counters()
    typer.echo(json.dumps(seen, indent=1) if as_json else _readable(seen, counters))


@app.command()
def tail(
    run: Run, n: Annotated[int, typer.Option("-n", min=1, help="How many.")] = 10, url: Url = None
) -> None:
    """The newest committed trials that are still there, in short; the newest is the last line."""
    from agentmem.replay.look import read_trials, stored_trials

    with open_buffer(run, url) as buffer:
        lines = [_line(*pair) for pair in read_trials(buffer, stored_trials(buffer)[:n])]
    typer.echo("\n".join(reversed(lines)) if lines else "the buffer holds no finished trial")


@app.command()
def export(
    run: Run,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file instead of printing.")] = None,
    url: Url = None,
) -> None:
    """Every stored trial as JSON, one a line: where it is, then the trial."""
    from agentmem.failures import ConfigError

    with open_buffer(run, url) as buffer:
        if out is None:
            for line in _exported(buffer):
                sys.stdout.write(line + "\n")
            return
        try:
            with out.open("w", encoding="utf-8") as file:
                n = sum(1 for line in _exported(buffer) if file.write(line + "\n"))
        except OSError as error:
            raise ConfigError(f"--out {out}: can't write there: {error.strerror}") from error
    typer.echo(f"{n} trials written to {out}")


@app.command()
def dead(
    run: Run,
    n: Annotated[int, typer.Option("-n", min=1, help="How many.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Tickets that failed for good, with their reasons; the newest is the last line."""
    import msgspec

    with open_buffer(run, url) as buffer:
        letters = buffer.dead_letters(n)
    if as_json:
        typer.echo("\n".join(msgspec.json.encode(letter).decode() for letter in letters))
        return
    for letter in letters:
        where = f" in {letter.where}" if letter.where else ""
        kind = "evaluation" if letter.eval else "group"
        typer.echo(
            f"{_time(letter.at_ms)}  {letter.ticket}  {kind} {letter.owner}  attempts {letter.attempts}  "
            f"{letter.kind}{where}: {letter.what}"
        )
    if not letters:
        typer.echo("no dead letters")


def _readable(seen: dict[str, Any], c: Counters) -> str:
    parts = ("queued", "running", "buffered", "trained", "filtered", "failed", "expired")
    numbers = {name: getattr(c, name) for name in parts}
    right, total = " + ".join(f"{k} {v}" for k, v in numbers.items()), sum(numbers.values())
    evals = ("queued", "running", "done", "failed")
    used, budget = c.buffer_bytes, seen["byte_budget"]
    rows = [
        ("run", seen["run"]),
        ("server", f"{seen['url']}, {_size(seen['used_memory'])} used"),
        ("trials", f"submitted {c.submitted} = {right}"),
        ("", "the identity holds" if c.identity_holds else f"THE IDENTITY IS BROKEN: the sum is {total}"),
        (
            "evaluation",
            f"submitted {c.eval_submitted} = "
            + " + ".join(f"{name} {getattr(c, 'eval_' + name)}" for name in evals),
        ),
        (
            "groups",
            f"open {c.groups_open}, ready {c.groups_ready}, taken {c.groups_taken}, held {c.groups_held}",
        ),
        (
            "replay",
            f"groups {c.replay_groups}; inserted {c.replay_inserted}, drawn {c.replay_sampled}, evicted "
            f"{c.replay_evicted}, refused {c.replay_refused}, draws not given {c.replay_limited}",
        ),
        ("tips", "; ".join(_tips(*item) for item in seen["tips"].items()) or "none"),
        (
            "bytes",
            f"{_size(used)}: trials {_size(c.bytes)}, progress {_size(c.progress_bytes)}, replay "
            f"{_size(c.replay_bytes)}, quarantined {_size(c.quarantined_bytes)}"
            + (f"; budget {_size(budget)}" if budget else ""),
        ),
        (
            "waiting",
            f"{c.blocked_producers} producers now, {c.blocked_s:.1f} s in all; over the budget "
            f"{c.budget_overruled}, held back by the online limiter {c.online_limited}",
        ),
        (
            "failures",
            f"retried {c.retried}, leases expired {c.leases_expired} (groups {c.group_leases_expired}), dead "
            f"letters {c.dead_letters}",
        ),
        ("drops", _pairs(c.drops)),
        ("expired", f"by environment: {_pairs(c.expired_by_env)}; by length: {_pairs(c.expired_by_length)}"),
        ("leases", _pairs(seen["leases"])),
        ("cursors", _pairs(seen["cursors"])),
        ("next groups", ", ".join(seen["oldest_ready"]) or "none"),
    ]
    return "\n".join(f"{name:<12}{text}" for name, text in rows)


def _tips(namespace: str, stats: dict[str, int]) -> str:
    return (
        f"{namespace}: {stats['tips']} of {stats['tasks']} tasks, {_size(stats['bytes'])} (added "
        f"{stats['added']}, dropped {stats['dropped']}, duplicates {stats['duplicates']})"
    )


def _pairs(values: dict[Any, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in values.items()) or "none"


def _size(n: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} B"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _line(item: StoredTrial, trial: Trial | Exception) -> str:
    head = f"{_time(item.at_ms)}  {item.ticket}  {item.place} {item.owner}  {item.environment}"
    if isinstance(trial, Exception):
        return f"{head}  {trial}"
    rewards = " ".join("-" if e.reward is None else f"{e.reward:g}" for e in trial.episodes)
    seen = trial.version_range()
    versions = "" if seen is None else f"  version {seen[0]}" + (f"-{seen[1]}" if seen[1] > seen[0] else "")
    return (
        f"{head}  {'solved' if trial.success else 'not solved'}  episodes {len(trial.episodes)} "
        f"(rewards {rewards})  tokens {item.tokens}{versions}  {_size(item.payload_bytes)}"
    )


def _exported(buffer: ReplayBuffer) -> Iterator[str]:
    """One line of JSON a trial, oldest commit first; NaN (a forced token's log-prob) becomes null."""
    import msgspec

    from agentmem.replay.look import read_trials, stored_trials

    for item, trial in read_trials(buffer, stored_trials(buffer)[::-1]):
        where = {"ticket": item.ticket, "place": item.place, "owner": item.owner, "committed_ms": item.at_ms}
        what = {"error": str(trial)} if isinstance(trial, Exception) else {"trial": trial}
        yield msgspec.json.encode(where | what).decode()
