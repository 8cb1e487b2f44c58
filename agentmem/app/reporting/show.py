"""`agentmem show`: a recorded example trial as text that a person reads from top to bottom.

For each episode what it knew of earlier ones, then each turn's board, prompt (if decoded), response, actions,
reward and advantage, then why it stopped and what is remembered of it, then the reflection. Text of models
and environments is shown without its control characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentmem.app.reporting.examples import Credit, Example, ExampleStore, load_examples
from agentmem.app.reporting.rundir import RunDir
from agentmem.failures import ConfigError
from agentmem.trajectory import Episode, Trial, Turn

__all__ = ["ExampleStore", "render", "render_list", "select", "show", "show_run", "write_text"]

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_WIDTH = 78


def show_run(which: str, trial: str | None = None, listing: bool = False) -> str:
    """`show` for a RUN as it is written in a command: id, path, or `last`."""
    return show(RunDir.find(which), trial, listing)


def write_page(which: str, trial: str | None, out: Path) -> None:
    """The same trial as a page of HTML. Raises AgentMemError with one line."""
    from agentmem.app.reporting.show_html import render_html

    text = render_html(select(load_examples(RunDir.find(which).examples), trial))
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--html {out}: can't write there: {error.strerror}") from error


def show(run: RunDir, trial: str | None = None, listing: bool = False) -> str:
    """The text of `agentmem show RUN [--trial ID|N] [--list]`. Raises AgentMemError with one line."""
    examples = load_examples(run.examples)
    return render_list(examples) if listing else render(select(examples, trial))


def write_text(run: RunDir) -> None:
    """Write `examples.txt`: the list, then every recorded trial. Nothing recorded: no file."""
    if run.examples.is_file():
        examples = load_examples(run.examples)
        text = "\n\n".join([render_list(examples), *(render(example) for example in examples)])
        run.examples_text.write_text(text + "\n", encoding="utf-8")


def select(examples: Sequence[Example], trial: str | None = None) -> Example:
    """The trial of that ticket id or number in the list (from 1); by default one that shows memory at work:
    the newest that was solved after a failed episode, if possible with a reflection."""
    if not examples:
        raise ConfigError("the run has recorded no example trial yet")
    if trial is None:
        return max(examples, key=lambda e: (e.turned, e.turned and bool(e.trial.reflections), e.update))
    for example in examples:
        if example.trial.ticket == trial:
            return example
    if trial.isdecimal() and 1 <= int(trial) <= len(examples):
        return examples[int(trial) - 1]
    raise ConfigError(
        f"no example trial '{trial}': 1 to {len(examples)} or a ticket id of --list are allowed"
    )


def render_list(examples: Sequence[Example]) -> str:
    """One line a trial, numbered from 1."""
    header = ["N", "update", "ticket", "task", "outcome"]
    body = [
        [str(n), str(e.update), e.trial.ticket, _task(e.trial), _outcome(e.trial)]
        for n, e in enumerate(examples, start=1)
    ]
    widths = [max(len(row[i]) for row in (header, *body)) for i in range(len(header))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (header, *body)
    )


def render(example: Example) -> str:
    """The whole trial as text."""
    return "\n".join(clean(line) for line in _lines(example))


def _lines(example: Example) -> Iterator[str]:
    trial, credit = example.trial, example.credit or {}
    yield "=" * _WIDTH
    yield from heading(example)
    notes = iter(notes_of(example))
    for number, advice in enumerate(trial.advice, start=1):
        where = f" before episode {number}" if len(trial.advice) > 1 else ""
        yield _rule(f"advice{where}, {'none in time' if not advice.policy else f'by policy {advice.policy}'}")
        yield from _turn(advice, next(notes))
    for n, episode in enumerate(trial.episodes):
        yield _rule(f"episode {n + 1} of at most {trial.mode.episodes}")
        for label, text in memory_of(trial, n):
            yield from _block(label, text)
        for number, turn in enumerate(episode.turns, start=1):
            yield f"turn {number}"
            yield from _turn(turn, next(notes))
        yield from _ending(episode)
        if n < len(trial.reflections):
            yield _rule(f"reflection after episode {n + 1}")
            yield from _turn(trial.reflections[n], next(notes))
    extra = {k: v for k, v in credit.items() if k not in ("advantages", "version", "loss_share")}
    yield from (f"learner's {name}: {value}" for name, value in extra.items())


def heading(example: Example) -> list[str]:
    """What is to be known of the trial as a whole: its name first."""
    return list(_heading(example))


def _heading(example: Example) -> Iterator[str]:
    trial, mode = example.trial, example.trial.mode
    member = f"member {trial.member + 1} of {trial.group_size}"
    yield f"trial {trial.ticket}: {_task(trial)}, {trial.task.split}, {member}"
    draw = f", draw {mode.draw}" if mode.draw else ""
    draw += f", advice {mode.advice}" if mode.advice else ""
    yield f"{_outcome(trial)}; method {mode.method}, memory {mode.memory}{draw}; {trial.wall_s:.1f} s"
    versions = trial.version_range()
    tokens = ", ".join(f"{count} {kind}" for kind, count in trial.token_counts().items())
    sampled = "" if versions is None else f"sampled by weight versions {versions[0]} to {versions[1]}; "
    yield f"{sampled}tokens: {tokens or 'none'}"
    if trial.failure is not None:
        yield f"failure ({trial.failure.kind}): {trial.failure.what}"
    yield _learner(example.update, example.credit)


def _learner(update: int, credit: Credit | None) -> str:
    if update == 0:
        return "played in an evaluation"
    text = f"consumed by update {update}"
    if credit is None:
        return text
    if credit.get("version") is not None:
        text += f" (to weight version {credit['version']})"
    if credit.get("loss_share") is not None:
        text += f", {credit['loss_share']:.2%} of its loss"
    return text


def notes_of(example: Example) -> list[tuple[str, float | None]]:
    """For each turn in order of play: its prompt ("" if not decoded) and its advantage (None: unknown)."""
    turns = example.trial.turns()
    prompts: Sequence[str] = example.prompts or ()
    advantages: Sequence[Any] = (example.credit or {}).get("advantages") or ()
    return [
        (prompts[i] if i < len(prompts) else "", advantages[i] if i < len(advantages) else None)
        for i in range(len(turns))
    ]


def memory_of(trial: Trial, n: int) -> Iterator[tuple[str, str]]:
    """What episode n may know of the earlier ones, by the trial's memory mode: label and text."""
    for earlier in trial.episodes[:n]:
        if trial.mode.memory in ("history", "both") and earlier.summary:
            yield f"memory of episode {earlier.index + 1}", earlier.summary
        if trial.mode.memory in ("reflection", "both") and earlier.index < len(trial.reflections):
            yield f"reflection on episode {earlier.index + 1}", trial.reflections[earlier.index].response


def _turn(turn: Turn, note: tuple[str, float | None]) -> Iterator[str]:
    prompt, advantage = note
    if turn.observation:
        yield from _block("", turn.observation)
    if turn.image is not None:
        width, height = turn.image.size
        yield f"  picture: {width} x {height} pixels, {len(turn.image.png)} bytes, {turn.image.sha256[:12]}"
    if turn.memory_snapshot:
        yield f"  memory snapshot: {turn.memory_snapshot}"
    if prompt:
        yield from _block("prompt", prompt)
    yield from _block("response", turn.response)
    facts = []
    if turn.actions:
        facts.append(f"action: {'; '.join(turn.actions)}")
    if turn.invalid:
        facts.append("invalid")
    if turn.reward is not None:
        facts.append(f"reward: {turn.reward:g}")
    if advantage is not None:
        facts.append(f"advantage: {advantage:+.3f}")
    # An answer of one token has no other end (compact prompts).
    if turn.finish_reason == "length" and len(turn.response_ids or ()) > 1:
        facts.append("cut at its token limit")
    if facts:
        yield f"  {'   '.join(facts)}"


def _ending(episode: Episode) -> Iterator[str]:
    reward = "none" if episode.reward is None else f"{episode.reward:g}"
    score = "" if episode.score is None else f", score {episode.score:g}"
    yield f"stopped: {episode.stop}, reward {reward}{score}"
    if episode.final_observation:
        yield from _block("", episode.final_observation)
    if episode.summary:
        yield from _block("remembered", episode.summary)


def _block(label: str, text: str) -> Iterator[str]:
    """A label and its text: on one line if it fits, else indented below."""
    lines = text.strip("\n").split("\n")
    if label and len(lines) == 1 and len(label) + len(lines[0]) + 4 <= _WIDTH:
        yield f"  {label}: {lines[0]}"
        return
    if label:
        yield f"  {label}:"
    yield from (f"    {line}" for line in lines)


def _rule(text: str) -> str:
    return f"\n--- {text} ".ljust(_WIDTH + 1, "-")


def clean(text: str) -> str:
    """Without escape sequences and control characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in _ESCAPES.sub("", text))


def _task(trial: Trial) -> str:
    return f"{trial.task.environment} {trial.task.instance}"


def _outcome(trial: Trial) -> str:
    if trial.failure is not None:
        return "failed"
    played = len(trial.episodes)
    for episode in trial.episodes:
        if episode.success:
            return f"solved in episode {episode.index + 1}"
    return f"not solved in {played} episode{'s' if played != 1 else ''}"
