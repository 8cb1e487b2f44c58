"""The chat messages of the database tasks, and how an answer is read.

An action is a statement, or `answer: ` with the rows. Besides our own form in action tags the benchmark's is
understood: `Action: Operation` with a fenced sql block, `Action: Answer` with `Final Answer: [...]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import EpisodeRecord, ParsedAction, Step, View
from envs.chat import ChatStyle, tagged
from envs.lab.db.options import Options
from envs.lab.shown import shortened

ANSWER = re.compile(r"\s*answer\s*:\s*(.*)", re.DOTALL | re.IGNORECASE)
_OPERATION = re.compile(r"Action:\s*Operation\s*```sql\s*\n?(.*?)```", re.DOTALL)
_FINAL = re.compile(r"Action:\s*Answer\s*\n?\s*Final Answer:(.*)", re.DOTALL)
_RULES = """\
You work on a {engine} database with one table, and get a task that either asks a question about the table \
or asks you to change it.

Each turn you do one of two things, inside <action> and </action>:
- run a single SQL statement: <action>SELECT name FROM people WHERE age > 30;</action>
  You are shown the rows that it returns as a Python list of tuples ([] for a statement without a result), \
or the error. Column names aren't shown.
- finish: <action>answer: [('Ann', 41), ('Bo', 35)]</action>
  For a question, give the rows that answer it: a Python list of tuples with the columns and the rows in the \
right order. For a change, any answer will do: the table is checked.

You have {rounds} turns at most; after the last one your work is judged as it is. A question without a final \
answer is not solved. Think first as long as you need, then give exactly one action."""


@dataclass(frozen=True, slots=True)
class DbStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """What can be done, and the form of an answer."""
        engine = "MariaDB" if self.options.url else "SQLite"
        return _RULES.format(engine=engine, rounds=self.options.max_rounds)

    def situation(self, observation: str) -> str:
        """As it is."""
        return observation

    def outcome(self, step: Step) -> str:
        """Says that an answer couldn't be read; all else can be seen."""
        return "Your last answer held no action in the asked form; nothing was run." if step.invalid else ""

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The text of the last action tag, or what the benchmark's own form holds; else invalid."""
        text = tagged(response, "action")
        if text is None:
            text = _benchmarks_own(response.rpartition("</think>")[2])
        return ParsedAction((text,)) if text else ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """Each turn's action and what it gave."""
        after = [step.observation for step in episode.steps[1:]] + [episode.final_observation]
        lines = []
        for number, (step, seen) in enumerate(zip(episode.steps, after, strict=True), 1):
            did = "nothing that could be read" if step.invalid else shortened("; ".join(step.actions), 400)
            lines.append(f"Turn {number}: {did}\n{shortened(seen, 400)}")
        return "\n".join(lines)


def _benchmarks_own(response: str) -> str | None:
    operation = _OPERATION.search(response)
    if operation:
        return operation[1].strip()
    final = _FINAL.search(response)
    return f"answer: {final[1].strip()}" if final else None
