"""A stand-in for a ServiceNow instance, with as much as WorkArena's menu, knowledge and list tasks need.

    python -m tests.standins.servicenow CONFIGS [PORT]

serves it (default: 8090) until it is interrupted, and prints the environment variables that lead there.
CONFIGS is WorkArena's directory `data_files`, where it says which menus, articles and columns there must be.

There are tables behind the same programs' door (`/api/now/table/...`), users who can log in by address, the
menu, the knowledge base, and lists in an inner frame that can be sorted by their columns' heads and filtered
by a line of conditions.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import uuid
from html import escape
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, quote, urlsplit

from tests.standins.serving import Request, Response, Server, as_json, form, page, redirect, until_told

ADMIN = ("admin", "an administrator's word")
COLUMNS = ("active", "user_name", "email", "title")
_CLASSIC = "/now/nav/ui/classic/params/target/"
Row = dict[str, str]


class ServiceNow:
    """The instance; `tables` holds everything, `environment` the variables that lead to it."""

    def __init__(self, configs: Path, port: int = 0) -> None:
        self._menus = json.loads((configs / "task_configs" / "all_menu.json").read_text())
        self.tables: dict[str, dict[str, Row]] = {}
        self.calls: list[str] = []
        """Method and table of each call through the programs' door."""
        self._furnish(json.loads((configs / "setup_files" / "knowledge" / "knowledge_base.json").read_text()))
        self._server = Server(self._answer, port)
        self.url = self._server.url
        self.environment = {
            "SNOW_INSTANCE_URL": self.url,
            "SNOW_INSTANCE_UNAME": ADMIN[0],
            "SNOW_INSTANCE_PWD": ADMIN[1],
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def add(self, table: str, **values: Any) -> Row:
        """A new row, as text throughout."""
        row = {"sys_id": uuid.uuid4().hex} | {key: _text(value) for key, value in values.items()}
        self.tables.setdefault(table, {})[row["sys_id"]] = row
        return row

    def _furnish(self, articles: list[dict[str, Any]]) -> None:
        for name, title in (ADMIN[0], "Chief"), ("lucius.bagnoli", "Trainee"), ("reva.kim", "Auditor"):
            word = ADMIN[1] if name == ADMIN[0] else uuid.uuid4().hex
            self.add(
                "sys_user",
                user_name=name,
                user_password=word,
                email=f"{name}@example.com",
                title=title,
                active=name != "reva.kim",
                vip=False,
            )
        self.add("sys_user_role", name="admin")
        self.add(
            "m2m_theme_style",
            **{"theme.name": "WorkArena", "theme.sys_id": "1", "style.name": "Plain", "style.sys_id": "2"},
            **{"style.type": "variant"},
        )
        switches = ("commenting", "mark_as_helpful", "rating", "suggesting", "category_editing")
        base = self.add(
            "kb_knowledge_base",
            title="General Knowledge",
            **{f"disable_{switch}": True for switch in switches},
        )
        for number, article in enumerate(articles, 1):
            self.add(
                "kb_knowledge",
                kb_knowledge_base=base["sys_id"],
                short_description=f"Article {number}",
                text=article["article"],
            )

    def _answer(self, request: Request) -> Response:
        table = re.fullmatch(r"/api/now/table/(\w+)(?:/(\w+))?", request.path)
        if table:
            return self._door(request, *table.groups())
        meta = re.fullmatch(r"/api/now/ui/meta/(\w+)", request.path)
        if meta:
            columns = {name: {"label": _label(name), "type": "string"} for name in COLUMNS}
            return as_json({"result": {"columns": columns}})
        if request.path == "/login.do":
            return self._log_in(request)
        if request.path == "/":
            return page("Log in | ServiceNow", "<p>Log in</p>")
        if "glide" not in request.cookies:
            return redirect("/login.do")
        inner = re.fullmatch(r"/(\w+)_list\.do", request.path)
        if inner:
            return self._list(inner.group(1), request.query)
        if request.path == "/now/nav/ui/home":
            items = "".join(
                f'<li><a href="{escape(one["url"])}">{escape(one["application"] + " > " + one["module"])}</a>'
                for one in self._menus[:40]
            )
            return page("ServiceNow", f'<nav aria-label="All menu"><ul>{items}</ul></nav>')
        if request.path == f"{_CLASSIC}kb":
            return self._knowledge(request.query.get("q"))
        if request.path.startswith(_CLASSIC) and "_list.do" in request.path:
            return _outer(request)
        return page("ServiceNow", f"<h1>{escape(request.path)}</h1>")

    def _door(self, request: Request, table: str, key: str | None) -> Response:
        self.calls.append(f"{request.method} {table}")
        word = request.headers.get("authorization", "").removeprefix("Basic ")
        name, _, password = base64.b64decode(word).decode().partition(":")
        if not self._known(name, password):
            return as_json({"error": "User Not Authenticated"}, 401)
        rows = self.tables.setdefault(table, {})
        if request.method == "POST":
            return as_json({"result": self.add(table, **request.json())}, 201)
        if request.method in ("PUT", "PATCH") and key:
            rows[key].update({name: _text(value) for name, value in request.json().items()})
            return as_json({"result": rows[key]})
        if request.method == "DELETE" and key:
            rows.pop(key, None)
            return Response(status=204)
        found = _matching(list(rows.values()), request.query.get("sysparm_query", ""))
        fields = [name for name in request.query.get("sysparm_fields", "").split(",") if name]
        if fields:
            found = [{name: row.get(name, "") for name in fields} for row in found]
        return as_json({"result": found})

    def _known(self, name: str, password: str) -> Row | None:
        for row in self.tables["sys_user"].values():
            if (row["user_name"], row["user_password"]) == (name, password):
                return row
        return None

    def _log_in(self, request: Request) -> Response:
        user = self._known(request.query.get("user_name", ""), request.query.get("user_password", ""))
        if user is None:
            return page("Log in | ServiceNow", "<p>Wrong name or password</p>", status=401)
        return redirect("/now/nav/ui/home", glide=user["sys_id"])

    def _knowledge(self, asked: str | None) -> Response:
        search = form(f"{_CLASSIC}kb", {"q": "Search"}, "Search", "get")
        if asked is None:
            return page("Knowledge", search)
        found = [row for row in self.tables["kb_knowledge"].values() if asked.lower() in row["text"].lower()]
        articles = "".join(
            f"<article><h2>{row['short_description']}</h2>{escape(row['text'])}</article>"
            for row in found[:3]
        )
        return page("Knowledge", search, articles)

    def _list(self, table: str, query: dict[str, str]) -> Response:
        """The inner frame: a table, its heads to sort it by, and a line of conditions to filter it by."""
        words = query.get("sysparm_query", "")
        order = re.search(r"ORDERBY(DESC)?(\w+)", words)
        by, down = (order.group(2), bool(order.group(1))) if order else ("user_name", False)
        conditions = "^".join(part for part in words.split("^") if part and not part.startswith("ORDERBY"))
        # Users come and go with every episode, and none may see another's: the list is of who stays.
        rows = [
            row for row in self.tables.get(table, {}).values() if "@workarena" not in row.get("email", "")
        ]
        rows = sorted(_matching(rows, conditions), key=lambda row: row.get(by, ""), reverse=down)
        heads = ""
        for name in COLUMNS:
            turned = "DESC" if by == name and not down else ""
            link = quote(f"{conditions}^ORDERBY{turned}{name}".lstrip("^"), safe="")
            heads += f'<th><a href="?sysparm_query={link}">{_label(name)}</a></th>'
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(row.get(name, ''))}</td>" for name in COLUMNS) + "</tr>"
            for row in rows
        )
        about = {
            "title": "Users",
            "table": table,
            "query": conditions,
            "fields": ",".join(COLUMNS),
            "by": by,
            "down": down,
            "rows": len(rows),
        }
        return page(
            "Users",
            f"<script>{_GLIDE.replace('ABOUT', json.dumps(about))}</script>",
            form(f"/{table}_list.do", {"sysparm_query": "Conditions"}, "Run", "get"),
            f'<table class="data_list_table" data-list_id="{table}"><thead><tr>{heads}</tr></thead>',
            f"<tbody>{body}</tbody></table>",
        )


_GLIDE = """
    const about = ABOUT;
    window.addAfterPageLoadedEvent = run =>
        document.readyState === "complete" ? run() : window.addEventListener("load", run);
    window.GlideList2 = {get: () => ({
        getTitle: () => about.title, getTableName: () => about.table, getQuery: () => about.query,
        fields: about.fields, getOrderBy: () => about.by, sortDir: about.down ? "DESC" : "ASC",
        grandTotalRows: about.rows,
    })};
"""


def _outer(request: Request) -> Response:
    """The page around a list. The list's own address is the last part of its path."""
    inner = urlsplit("/" + request.path.removeprefix(_CLASSIC))
    query = dict(parse_qsl(inner.query)) | request.query
    words = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    source = escape(f"{inner.path}?{words}")
    return page("ServiceNow", f'<iframe id="gsft_main" name="gsft_main" src="{source}"></iframe>')


def _matching(rows: list[Row], conditions: str) -> list[Row]:
    """The rows for which all conditions hold (or, joined by ^OR, any)."""
    either = "^OR" in conditions
    tests = [
        re.fullmatch(r"([\w.]+)(=|LIKE)(.*)", part) for part in re.split(r"\^OR|\^|,", conditions) if part
    ]

    def holds(row: Row, test: re.Match[str]) -> bool:
        name, sign, value = test.groups()
        return row.get(name, "") == value if sign == "=" else value.lower() in row.get(name, "").lower()

    return [row for row in rows if (any if either else all)(holds(row, test) for test in tests if test)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def main() -> None:
    """See the module's docstring."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with ServiceNow(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8090) as instance:
        for name, value in instance.environment.items():
            print(f"export {name}='{value}'" if "'" not in value else f'export {name}="{value}"', flush=True)
        until_told()


if __name__ == "__main__":
    main()
