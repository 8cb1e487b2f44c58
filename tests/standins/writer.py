"""A stand-in for a bank's writer: an OpenAI-compatible endpoint that fails on command.

Its answers depend on the question alone, so two builds with the same questions get the same answers. To the
zoom question it names a step; else it writes a hint with a word that only this question has.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Any

from tests.standins.serving import Request, Response, Server, as_json

Answering = Callable[[dict[str, Any]], Response | None]
"""What is answered to a body in place of the usual; None: the usual."""


class WriterEndpoint(Server):
    """`asked` holds the bodies of the requests that came, `answered` those with a usual answer."""

    def __init__(self, key: str = "", port: int = 0) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answered: list[dict[str, Any]] = []
        self.instead: Answering = lambda body: None
        """Looked at for each request."""
        self.troubles: list[Response] = []
        """Given away one by one before anything else is answered."""
        self.most_at_once = 0
        self._at_once = 0
        self._key, self._counting = key, threading.Lock()
        super().__init__(self._answer, port, at_once=True)
        self.base_url = f"{self.url}/v1"

    def _answer(self, request: Request) -> Response:
        with self._counting:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return self._reply(request)
        finally:
            with self._counting:
                self._at_once -= 1

    def _reply(self, request: Request) -> Response:
        given = request.headers.get("authorization", "")
        if given != (f"Bearer {self._key}" if self._key else ""):
            return as_json({"error": {"message": f"Incorrect API key provided: {given}"}}, 401)
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            return as_json({"error": {"message": "no such place"}}, 404)
        if len(request.body) < int(request.headers.get("content-length", 0)) or not request.body:
            return trouble(400, "who asked has gone")  # cancelled while it was sent
        body = request.json()
        with self._counting:
            self.asked.append(body)
            if self.troubles:
                return self.troubles.pop(0)
        other = self.instead(body)
        if other is not None:
            return other
        with self._counting:
            self.answered.append(body)
        return completion(usual(question(body)))


def question(body: dict[str, Any]) -> str:
    """The last message of a request."""
    return str(body["messages"][-1]["content"])


def is_zoom(body: dict[str, Any]) -> bool:
    """Whether it asks for the decisive steps."""
    return "Name at most five" in question(body)


def usual(asked: str) -> str:
    """The answer to a question."""
    word = hashlib.sha256(asked.encode()).hexdigest()[:12]
    if "Name at most five" in asked:
        return f"record 1, step 1: it went the right way ({word})"
    return f"Look around first. Then remember {word}."


def completion(text: str | None, finish: str = "stop", **usage: int) -> Response:
    """An answer of the protocol."""
    counts = usage or {"prompt_tokens": 100, "completion_tokens": 20}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
    return as_json({"id": "1", "object": "chat.completion", "choices": [choice], "usage": counts})


def trouble(status: int, message: str = "", **headers: str) -> Response:
    """A refusal."""
    answer = as_json({"error": {"message": message or f"trouble {status}"}}, status)
    return Response(answer.body, status, answer.kind, {k.replace("_", "-"): v for k, v in headers.items()})
