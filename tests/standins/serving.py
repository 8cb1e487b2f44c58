"""A web server in a thread, and what its pages are made of."""

from __future__ import annotations

import contextlib
import http.cookies
import http.server
import json
import signal
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any, Self


@dataclass(frozen=True)
class Request:
    """What a browser (or a program) asks for."""

    method: str
    path: str
    """Unquoted, without the query."""
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    cookies: dict[str, str]
    body: bytes

    def form(self) -> dict[str, str]:
        """The fields of a form that was sent."""
        return dict(urllib.parse.parse_qsl(self.body.decode(), keep_blank_values=True))

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body or b"{}")


@dataclass(frozen=True)
class Response:
    """What is answered."""

    body: bytes = b""
    status: int = 200
    kind: str = "text/html; charset=utf-8"
    headers: dict[str, str] = field(default_factory=dict)


def page(title: str, *parts: str, status: int = 200) -> Response:
    """A page of HTML."""
    text = f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(title)}</title></head>"
    return Response(f"{text}<body>{''.join(parts)}</body></html>".encode(), status)


def redirect(to: str, **cookies: str) -> Response:
    """Go elsewhere, with at most one cookie."""
    headers = {"Location": to}
    for name, value in cookies.items():
        headers["Set-Cookie"] = f"{name}={urllib.parse.quote(value)}; Path=/"
    return Response(status=302, headers=headers)


def as_json(value: Any, status: int = 200) -> Response:
    """An answer to a program."""
    return Response(json.dumps(value).encode(), status, "application/json")


def form(action: str, labels: dict[str, str], button: str, method: str = "post") -> str:
    """A form of labelled fields (label by name; a name with `password` in it hides what is typed)."""
    rows = []
    for name, label in labels.items():
        kind = "password" if "password" in name else "text"
        rows.append(
            f'<p><label for="{escape(name)}">{escape(label)}</label>'
            f'<input id="{escape(name)}" name="{escape(name)}" type="{kind}"></p>'
        )
    inner = f'{"".join(rows)}<button type="submit">{escape(button)}</button>'
    return f'<form method="{method}" action="{escape(action)}">{inner}</form>'


class Server:
    """Serves `answer` on a port of this machine until it is closed: one request at a time, or all at once."""

    def __init__(
        self, answer: Callable[[Request], Response], port: int = 0, *, at_once: bool = False
    ) -> None:
        lock: contextlib.AbstractContextManager[object]
        lock = contextlib.nullcontext() if at_once else threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def handle_one(self) -> None:
                parts = urllib.parse.urlsplit(self.path)
                found = http.cookies.SimpleCookie(self.headers.get("Cookie", ""))
                request = Request(
                    self.command,
                    urllib.parse.unquote(parts.path),
                    dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True)),
                    {name.lower(): value for name, value in self.headers.items()},
                    {name: urllib.parse.unquote(morsel.value) for name, morsel in found.items()},
                    self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                )
                with lock:
                    response = answer(request)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # who asked has gone
                    self.give(response)

            def give(self, response: Response) -> None:
                self.send_response(response.status)
                self.send_header("Content-Type", response.kind)
                self.send_header("Content-Length", str(len(response.body)))
                for name, value in response.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(response.body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.daemon = True
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening; the port is free afterwards."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)
        assert not self._thread.is_alive()


def until_told() -> None:
    """Wait for SIGINT or SIGTERM. A shell's background jobs ignore the first unless they ask for it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
