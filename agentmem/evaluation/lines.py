"""What an evaluation leaves of a trial: a line of `trials.jsonl`, from which every figure is computed.

A file holds the evaluations of one run or of one `agentmem eval`. Of two lines of the same evaluation, task
and sample the later one counts: after a resume a task may have been played again. A torn last line (a crash)
is left out by readers and cut off by the next writer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from agentmem.failures import ConfigError
from agentmem.jsonl import LineWriter
from agentmem.memory.advisor import advice_of
from agentmem.trajectory import Episode, Trial, Turn, domain_of


class EpisodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """An episode that was played."""

    solved: bool
    stop: str
    """Stop reason: success, failure, step_limit, token_limit, context_exhausted."""
    score: float | None
    """The benchmark's own."""
    actions: list[str]
    """One a turn, as it was sent (moves of one turn joined by `; `); empty where the answer had none."""
    invalid: int
    """Turns without a usable action."""
    path: str
    """Hash of the exact sequence of (observation, action)."""


class AdviceLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a memory policy said (Mem-π)."""

    decision: str
    """`generate` or `abstain`."""
    p_generate: float | None
    """Between the two; None where it wasn't asked."""
    hint_tokens: int
    """0 for an abstention."""
    late: bool = False
    """It abstains because no answer came in time."""
    hint: str = ""
    """As the agent was given it; empty for an abstention."""
    record: str = ""
    """The bank's record that it was looked up in; empty for one that was written."""
    cosine: float | None = None
    """Of the nearest record where hints are looked up, given or not."""


class TrialLine(msgspec.Struct, frozen=True, kw_only=True):
    """A trial: a success ends it, so at most its last episode is solved."""

    update: int = 0
    """Updates that the weights had seen in this run; 0 for `agentmem eval`."""
    condition: str
    seed: int
    instance: str | int
    sample: int = 0
    """Which of the trials of this task, from 0."""
    episodes: list[EpisodeLine]
    score: float | None
    tokens: dict[str, int]
    """Sampled, by turn kind."""
    prompt_tokens: int
    """Read, over all calls, each prompt in full."""
    wall_s: float
    """From the trial's start to its end, beside all others in flight."""
    advice: list[AdviceLine] = []
    """In the order of the episodes that it stands before."""
    remembered: bool = False
    """Not played again: the same scripted agent had been given the same hint on the same instance before."""

    @property
    def domain(self) -> str:
        """Which environment of a mixture the task is from; empty: of no mixture."""
        return domain_of(self.instance)

    @property
    def solved(self) -> list[bool]:
        """Of each episode."""
        return [episode.solved for episode in self.episodes]

    @property
    def turns(self) -> int:
        """Of all episodes."""
        return sum(len(episode.actions) for episode in self.episodes)

    @property
    def sampled_tokens(self) -> int:
        """Of all kinds: actions, reflections, tips."""
        return sum(self.tokens.values())

    def within(self, k: int) -> bool:
        """Solved within the first k episodes."""
        return any(self.solved[:k])


def line_of(trial: Trial, condition: str, seed: int, *, sample: int = 0, update: int = 0) -> TrialLine:
    """The line of a finished trial."""
    return TrialLine(
        update=update,
        condition=condition,
        seed=seed,
        instance=trial.task.instance,
        sample=sample,
        episodes=[_episode(episode) for episode in trial.episodes],
        score=trial.score,
        tokens=trial.token_counts(),
        prompt_tokens=sum(len(turn.prompt_ids) for turn in trial.turns()),
        wall_s=round(trial.wall_s, 4),
        advice=[advice_line(turn) for turn in trial.advice],
    )


def advice_line(turn: Turn) -> AdviceLine:
    """The line of an advice turn."""
    said = advice_of(turn)
    return AdviceLine(
        decision=said.decision.value,
        p_generate=said.p_generate,
        hint_tokens=said.tokens,
        late=said.late,
        hint=said.text,
    )


def _episode(episode: Episode) -> EpisodeLine:
    actions = ["; ".join(turn.actions) for turn in episode.turns]
    digest = hashlib.blake2b(digest_size=12)
    for turn, action in zip(episode.turns, actions, strict=True):
        for text in (turn.observation, action):
            part = text.encode("utf-8", "surrogatepass")
            digest.update(len(part).to_bytes(8, "little") + part)
    return EpisodeLine(
        solved=episode.success,
        stop=episode.stop.value,
        score=episode.score,
        actions=actions,
        invalid=sum(turn.invalid for turn in episode.turns),
        path=digest.hexdigest(),
    )


_decoder = msgspec.json.Decoder(TrialLine)


class TrialWriter(LineWriter):
    """Appends lines of trials."""

    def append(self, lines: Iterable[TrialLine]) -> None:
        """They are with the operating system when this returns."""
        self.write(lines)


def read_lines(path: Path) -> list[TrialLine]:
    """The lines that count, in the order of the file. Raises ConfigError naming the file and a bad line."""
    try:
        *lines, _torn = path.read_bytes().split(b"\n")
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    latest: dict[tuple[int, str, int, str | int, int], TrialLine] = {}
    for number, line in enumerate(lines, start=1):
        try:
            found = _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}, line {number}: no line of an evaluation: {error}") from error
        latest[found.update, found.condition, found.seed, found.instance, found.sample] = found
    if not latest:
        raise ConfigError(f"{path} holds no trial")
    return list(latest.values())


def truncate_after(path: Path, update: int) -> None:
    """Before a resume from the checkpoint of `update`: drop the lines of later evaluations, whose weights are
    lost. The file is replaced as a whole; nothing happens without one. No writer may be open."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            if _decoder.decode(line).update <= update:
                kept.append(line + b"\n")
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}: no line of an evaluation: {error}") from error
    part = path.with_name(path.name + ".part")
    part.write_bytes(b"".join(kept))
    os.replace(part, path)


def by_task(lines: Sequence[TrialLine]) -> dict[str | int, list[TrialLine]]:
    """Instance -> its trials, in order of first appearance."""
    tasks: dict[str | int, list[TrialLine]] = {}
    for line in lines:
        tasks.setdefault(line.instance, []).append(line)
    return tasks


def per_key(lines: Sequence[TrialLine]) -> dict[tuple[str | int, int], TrialLine]:
    """The lines of one evaluation by instance and sample."""
    return {(line.instance, line.sample): line for line in lines}
