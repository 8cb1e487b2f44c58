"""What every request to the advice service passes first: its token, its body, its count. Plain ASGI.

- Without the right token nothing but `/healthz` is answered; tokens are compared in constant time.
- A body is read as a whole before anything else sees it, so none is longer than the limit, and none comes
  drop by drop for longer than `BODY_S`.
- Every answer is counted by its status.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from agentmem.telemetry import Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

BODY_S = 10.0
"""How long a body may take to arrive."""
OPEN = "/healthz"
"""Whoever watches over the process has no token."""


class Gate:
    """See the module's docstring. `token` empty: everybody may ask."""

    def __init__(self, app: App, *, token: str, longest_body: int, metrics: Metrics) -> None:
        self._app, self._token, self._longest, self._metrics = app, token, longest_body, metrics

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count("agentmem_advice_requests_total", reason=str(message["status"]))
            await send(message)

        if not self._may(scope):
            await refuse(counted, 401, "a bearer token is needed, and this is none or another")
            return
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._body(receive)
        except TimeoutError:
            await refuse(counted, 408, f"the body took longer than {BODY_S:g} s")
            return
        if body is None:  # who asked has gone
            return
        if len(body) > self._longest:
            await refuse(counted, 413, f"the body has more than {self._longest} bytes")
            return
        whole: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def told() -> Message:
            nonlocal whole
            if whole is None:
                return await receive()
            message, whole = whole, None
            return message

        try:
            await self._app(scope, told, counted)
        except Exception:  # it is answered further out
            self._metrics.count("agentmem_advice_requests_total", reason="500")
            raise

    def _may(self, scope: MutableMapping[str, Any]) -> bool:
        if not self._token or scope["path"] == OPEN:
            return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        kind, _, secret = (given[0] if len(given) == 1 else b"").partition(b" ")
        # Digests are equally long, so a wrong token's length tells nothing either.
        same = hmac.compare_digest(_digest(secret.strip()), _digest(self._token.encode()))
        return same and kind.lower() == b"bearer"

    async def _body(self, receive: Receive) -> bytes | None:
        """Up to one byte more than the limit; None if the connection ended."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._longest or not message.get("more_body"):
                return bytes(body[: self._longest + 1])


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


async def refuse(send: Send, status: int, why: str) -> None:
    """An answer of one line, after which the connection ends: what else was sent isn't read."""
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": why}).encode()})
