"""What a bank's writer is asked, and what is read from its answers. Pure.

Two questions on the same traces. The zoom pass: which steps decided the outcome, and why. The hint: one short
text for an agent that is about to begin this task or one like it; it sees the decisive steps in full and the
others in short. A change of any wording here is a new `PROMPT_VERSION`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentmem.chat.answer import Answer, Messages
from agentmem.chat.cut import full_sentences
from agentmem.memory.bank.grouping import Job
from agentmem.memory.bank.records import Kind
from agentmem.memory.bank.traces import Step, Trace
from agentmem.sampling import FinishReason

PROMPT_VERSION = "1"

Decisive = frozenset[tuple[int, int]]
"""(trace, step) of each decisive step, both from 1."""


class Room(NamedTuple):
    """How much of the traces a prompt shows."""

    characters: int
    """Of each observation and answer."""
    steps: int
    """Of each trace: its first and its last ones."""


ROOMS = (
    Room(8000, 400),
    Room(3000, 400),
    Room(1200, 200),
    Room(500, 100),
    Room(250, 40),
    Room(120, 20),
    Room(80, 8),
    Room(60, 4),
    Room(40, 2),
)
"""From the whole to a bare outline; the first that fits the writer's context is taken."""
SHORT = 160
"""Characters of an observation that isn't decisive, where decisive ones are shown in full."""
MOST_DECISIVE = 5
WORDS_PER_TOKEN = 0.6
LONGEST_TOKEN = 12
"""Characters. An answer longer than its limit of such tokens hasn't kept to the limit."""

_ZOOM_SYSTEM = (
    "You study records of an agent that acts in an environment step by step. You find the few steps that "
    "decided how it went: where the goal came into reach or was lost, and why."
)
_HINT_SYSTEM = (
    "You write hints for an agent that acts in an environment step by step. A hint is put in front of the "
    "task before the agent begins. It says what to do, what to look out for, and how to tell that it goes "
    "wrong, in the order in which the agent needs it. It must help whoever begins this task, or one like it, "
    "without having seen any record."
)
_ABOUT = {
    Kind.SUCCESS: "The record below reached the goal.",
    Kind.FAILURE: "The record below didn't reach the goal.",
    Kind.PAIR: "Of the two records below the first reached the goal, and the second didn't.",
    Kind.SEVERAL: "Below are several records of the same task.",
}
_ASK_ZOOM = {
    Kind.SUCCESS: "Which steps made it succeed?",
    Kind.FAILURE: "Which steps made it fail?",
    Kind.PAIR: "At which steps do they part, and which steps made the difference?",
    Kind.SEVERAL: "Which steps decided between good and bad courses?",
}
_ZOOM_FORM = (
    "Name at most five, the most important first, one a line, in this form and nothing else:\n"
    "record 1, step 3: what was done there and why it mattered"
)
_ASK_HINT = {
    Kind.SUCCESS: "Write the hint that lets the agent succeed in the same way, without the detours.",
    Kind.FAILURE: "Write the hint that keeps the agent from this failure, and says what to try instead.",
    Kind.PAIR: "Write the hint that makes the difference between the two.",
    Kind.SEVERAL: "Write the hint that holds what all these records together teach.",
}
_NAMED = re.compile(r"(?:record\s*#?(\d{1,4})\W{0,4})?\bstep\s*#?(\d{1,6})", re.IGNORECASE)
_LABEL = re.compile(r"^\W{0,3}hint\W{0,3}:\W{0,3}\s*", re.IGNORECASE)


def zoom_prompt(job: Job, fits: Callable[[Messages], bool]) -> Messages | None:
    """The first question, with as much of the traces as fits; None if not even an outline does."""

    def messages(room: Room) -> Messages:
        told = _told(job, [_record(n, trace, room, frozenset()) for n, trace in _numbered(job)])
        return (("system", _ZOOM_SYSTEM), ("user", f"{told}\n\n{_ASK_ZOOM[job.kind]} {_ZOOM_FORM}"))

    return _fitting(messages, fits)


def hint_prompt(
    job: Job, zoomed: str | None, max_tokens: int, fits: Callable[[Messages], bool]
) -> Messages | None:
    """The second question. `zoomed`: the first one's answer; None: there was no such pass."""
    decisive = decisive_steps(job, zoomed or "")
    notes = f"\n\nThe steps that decided it:\n{(zoomed or '').strip()}" if decisive else ""
    form = (
        f"At most {max(1, int(max_tokens * WORDS_PER_TOKEN))} words, in full sentences that address the "
        "agent. Don't speak of records or steps by number. Answer with the hint alone."
    )

    def messages(room: Room) -> Messages:
        told = _told(job, [_record(n, trace, room, decisive) for n, trace in _numbered(job)])
        return (("system", _HINT_SYSTEM), ("user", f"{told}{notes}\n\n{_ASK_HINT[job.kind]} {form}"))

    return _fitting(messages, fits)


def decisive_steps(job: Job, zoomed: str) -> Decisive:
    """The steps that an answer to the zoom pass names, as far as there are such: at most five. `step 3`
    without a record's number belongs to the record named last, at first the first."""
    found: set[tuple[int, int]] = set()
    record = 1
    for match in _NAMED.finditer(zoomed):
        record = int(match[1]) if match[1] else record
        step = int(match[2])
        if len(found) == MOST_DECISIVE:
            break
        if 1 <= record <= len(job.traces) and 1 <= step <= len(job.traces[record - 1].steps):
            found.add((record, step))
    return frozenset(found)


def said(answer: Answer) -> str:
    """An answer without the model's thought; empty if it never came out of its thought."""
    before, end, after = answer.text.rpartition("</think>")
    text = after if end else before + after
    return "" if not end and "<think>" in text else text.strip()


def hint_in(answer: Answer, max_tokens: int) -> tuple[str, bool]:
    """The hint, and whether it had to be cut: at its last full sentence, since it had reached its limit.
    Empty if there is none, or no full sentence."""
    text = _LABEL.sub("", said(answer))
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    longest = max_tokens * LONGEST_TOKEN
    over = answer.finish_reason is FinishReason.LENGTH or len(text) > longest
    return (full_sentences(text[:longest]), True) if over else (text, False)


def _fitting(messages: Callable[[Room], Messages], fits: Callable[[Messages], bool]) -> Messages | None:
    return next((made for room in ROOMS if fits(made := messages(room))), None)


def _numbered(job: Job) -> list[tuple[int, Trace]]:
    return list(enumerate(job.traces, start=1))


def _told(job: Job, records: Sequence[str]) -> str:
    task = f"The task:\n{job.situation.q}"
    return "\n\n".join([task, _ABOUT[job.kind], *records])


def _record(number: int, trace: Trace, room: Room, decisive: Decisive) -> str:
    ending = "reached the goal" if trace.success else f"didn't reach the goal ({trace.stop.value})"
    score = "" if trace.score is None else f", score {trace.score:g}"
    lines = [f"Record {number}: {ending}{score}"]
    shown = _shown(len(trace.steps), room.steps, {step for record, step in decisive if record == number})
    before, most = 0, room.characters
    for at in shown:
        if at > before + 1:
            lines.append(f"(steps {before + 1} to {at - 1} are left out)")
        short = decisive and (number, at) not in decisive
        lines.append(_step(at, trace.steps[at - 1], min(most, SHORT) if short else most))
        before = at
    lines.append(f"At the end it saw: {_shortened(trace.last, most)}" if trace.last else "The end.")
    return "\n".join(lines)


def _step(number: int, step: Step, characters: int) -> str:
    if step.actions:
        done = f"did: {'; '.join(step.actions)}"
        done += " (not possible; nothing happened)" if step.invalid else ""
    else:
        done = f"gave no usable answer: {_shortened(step.response, min(characters, SHORT))}"
    reward = f" (reward {step.reward:g})" if step.reward else ""
    return f"Step {number} saw: {_shortened(step.observation, characters)}\nStep {number} {done}{reward}"


def _shown(steps: int, most: int, always: set[int]) -> list[int]:
    """Numbers of the steps to show: the first and the last ones, and those that are always shown."""
    head = (most + 1) // 2
    tail = most - head
    return [n for n in range(1, steps + 1) if n <= head or n > steps - tail or n in always]


def _shortened(text: str, most: int) -> str:
    """At most so many characters: the beginning and the end."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]} [...] {text[len(text) - (most - head) :]}"
