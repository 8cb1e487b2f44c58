"""A question about a table, or a change to it, to be solved by SQL.

An action is one statement, or `answer: [...]`, which ends the episode. A question's answer must have the
expected rows in the expected order; after a change the table's content must have the expected hash. The
only reward is 1 for success, at the end. `info["error"]` is true when the engine refused the statement.
"""

from __future__ import annotations

from typing import Any, ClassVar

from envs.base import Info, PromptStyle, TextEnv
from envs.lab.db.answers import read_answer, same_rows, table_hash
from envs.lab.db.database import Database, StatementError, Table
from envs.lab.db.options import Options
from envs.lab.db.sqlite import SqliteDatabase
from envs.lab.db.text import ANSWER
from envs.lab.shown import shortened
from envs.lab.tasks import entries
from envs.options import EnvSetupError

ENTRIES = "lab/db_entry_dict.json.xz"


class LabDb(TextEnv):
    """One task at a time. See the module's docstring."""

    name: ClassVar[str] = "lab-db"

    def __init__(self, options: Options, style: PromptStyle) -> None:
        self.options = options
        self.style = style
        self._entry: dict[str, Any] | None = None
        self._database: Database | None = None
        self._server: Any = None
        self._seen = ""
        self._rounds = 0
        self._over = True
        self._success = False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start the task `options["instance"]`, an id from "0" to "499"."""
        if "instance" not in (options or {}):
            raise EnvSetupError("lab-db: reset needs options={'instance': ...}")
        instance = (options or {})["instance"]
        every = entries(self.name, ENTRIES)
        if str(instance) not in every:
            raise EnvSetupError(f"lab-db has no instance {instance!r}: ids go from 0 to {len(every) - 1}")
        self._entry = every[str(instance)]
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        """The task again, with a new database."""
        if self._entry is None:
            raise EnvSetupError("lab-db: restart or step before the first reset")
        table = Table.of(self._entry)
        self._remove()
        self._database = self._made(table)
        columns = ", ".join(f"{name} ({kind})" for name, kind in table.columns)
        self._seen = f"The table is called {table.name}. Its columns: {columns}."
        self._rounds, self._over, self._success = 0, False, False
        return self._seen, {**self._info(), "instruction": self._entry["instruction"]}

    def _made(self, table: Table) -> Database:
        if not self.options.url:
            return SqliteDatabase(table, self.options.statement_seconds)
        from envs.lab.db.mariadb import MariaDatabase, Server

        if self._server is None:
            self._server = Server(self.options.url)
        return MariaDatabase(self._server, table, self.options.statement_seconds)

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Run a statement, or judge an answer."""
        if self._database is None:
            raise EnvSetupError("lab-db: restart or step before the first reset")
        if self._over:
            return self._seen, 0.0, True, False, self._info(invalid=True)
        invalid, error, answer = not action.strip(), False, None
        given = ANSWER.fullmatch(action)
        if given:
            answer, self._over = given[1], True
            self._seen = "Your answer was taken."
        elif not invalid:
            try:
                text = repr(self._database.run(action))
            except StatementError as refused:
                text, error = f"Error: {refused}", True
            self._seen = shortened(text, self.options.max_observation_chars)
        self._rounds += 1
        spent = self._rounds >= self.options.max_rounds
        failed = invalid and self.options.end_on_invalid
        self._over = self._over or spent or failed
        if self._over and not failed:
            self._success = self._judged(answer)
        return self._seen, float(self._success), self._over, False, self._info(invalid=invalid, error=error)

    def _judged(self, answer: str | None) -> bool:
        assert self._entry is not None
        assert self._database is not None
        expected = self._entry["answer_info"]
        if expected["md5"] is not None:
            content = self._database.content()
            return content is not None and table_hash(content) == expected["md5"]
        rows = None if answer is None else read_answer(answer)
        return rows is not None and same_rows(rows, expected["direct"])

    def _info(self, *, invalid: bool = False, error: bool = False) -> Info:
        score = float(self._success)
        return {"success": self._success, "invalid": invalid, "score": score, "error": error}

    def _remove(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def close(self) -> None:
        """Remove the database, and end the connection to the server."""
        try:
            self._remove()
        finally:
            if self._server is not None:
                self._server.close()
                self._server = None
