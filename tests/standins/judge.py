"""A stand-in for the language model that judges answers: an OpenAI-compatible endpoint with a simple mind.

It takes an answer as right if the reference answer stands in it, and a reason as the same if the true reason
does.
"""

from __future__ import annotations

import re

from tests.standins.serving import Request, Response, Server, as_json


class JudgeEndpoint(Server):
    """Serves /v1/chat/completions to who has the key; `asked` holds the models and questions."""

    def __init__(self, key: str) -> None:
        self.asked: list[tuple[str, str]] = []
        self._key = key
        super().__init__(self._answer)
        self.base_url = f"{self.url}/v1"

    def _answer(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self._key}":
            return as_json({"error": {"message": f"wrong key: {request.headers.get('authorization')}"}}, 401)
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            return as_json({"error": {"message": "no such place"}}, 404)
        model, question = request.json()["model"], request.json()["messages"][-1]["content"]
        self.asked.append((model, question))
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": _verdict(question)},
        }
        return as_json(
            {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
        )


def _verdict(question: str) -> str:
    def line(start: str) -> str:
        found = re.search(rf"^{start}: (.*)$", question, re.MULTILINE)
        return found.group(1).strip().lower() if found else ""

    if "reported unachievable reason" in question:
        truth, said = line("actual unachievable reason"), line("reported unachievable reason")
        return "same" if truth in said else "different"
    return "correct" if line("reference answer") in line("student answer") else "incorrect"
