"""A question about a table, or a change to it, to be solved by SQL.

An action is one statement, or `answer: [...]`, which ends the episode. A question's answer must have the
expected rows in the expected order; after a change the table's content must have the expected hash. The
only reward is 1 for success, at the end. `info["error"]` is true when the engine refused the statement.
"""

from __future__ import annotations

from typing import Any, ClassVar

from envs.base import Info, PromptStyle
from envs.lab.db.answers import read_answer, same_rows, table_hash
from envs.lab.db.database import Database, StatementError, Table
from envs.lab.db.options import Options
from envs.lab.db.sqlite import SqliteDatabase
from envs.lab.db.text import ANSWER
from envs.lab.env import LabEnv
from envs.lab.text import cut
from envs.options import EnvSetupError

ENTRIES = "lab/db_entry_dict.json.xz"


class LabDb(LabEnv):
    """One task at a time. See the module's docstring."""

    name: ClassVar[str] = "lab-db"
    file: ClassVar[str] = ENTRIES

    def __init__(self, options: Options, style: PromptStyle) -> None:
        super().__init__(style)
        self.options = options
        self._database: Database | None = None
        self._server: Any = None

    def prepare(self, entry: dict[str, Any]) -> str:
        """A new database with the task's table."""
        table = Table.of(entry)
        self._remove()
        self._database = self._made(table)
        columns = ", ".join(f"{name} ({kind})" for name, kind in table.columns)
        return f"The table is called {table.name}. Its columns: {columns}."

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
            self._seen = cut(text, self.options.max_observation_chars)
        self._rounds += 1
        spent = self._rounds >= self.options.max_rounds
        failed = invalid and self.options.end_on_invalid
        self._over = self._over or spent or failed
        if self._over and not failed:
            self._success = self._judged(answer)
        return self._seen, float(self._success), self._over, False, self._info(invalid=invalid, error=error)

    def _judged(self, answer: str | None) -> bool:
        assert self._database is not None
        expected = self.entry()["answer_info"]
        if expected["md5"] is not None:
            content = self._database.content()
            return content is not None and table_hash(content) == expected["md5"]
        rows = None if answer is None else read_answer(answer)
        return rows is not None and same_rows(rows, expected["direct"])

    def _info(self, *, invalid: bool = False, error: bool = False, **further: Any) -> Info:
        return super()._info(invalid=invalid, error=error, **further)

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
