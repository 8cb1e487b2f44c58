"""The chat messages of the database tasks, and how an answer is read.

An action is a statement, or `answer: ` with the rows. Besides our own form in action tags the benchmark's is
understood: `Action: Operation` with a fenced sql block, `Action: Answer` with `Final Answer: [...]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.base import View
from envs.lab.db.options import Options
from envs.lab.text import LabStyle

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
class DbStyle(LabStyle):
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

    def benchmarks_own(self, answer: str) -> str | None:
        """An operation, or a final answer as `answer: ...`."""
        operation = _OPERATION.search(answer)
        if operation:
            return operation[1].strip()
        final = _FINAL.search(answer)
        return f"answer: {final[1].strip()}" if final else None
