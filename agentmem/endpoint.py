"""A model behind an OpenAI-compatible endpoint, as a `ChatModel`.

Promises:
- At most `concurrency` requests are under way, at most `requests_per_minute` start in a minute; when the
  server asks for a pause (429 or 503 with `Retry-After`) no request starts before its end.
- What may go well later (no connection, a timeout, 408, 409, 425, 429, 5xx) is tried again, with pauses that
  double; after `attempts`, or once the pauses would exceed `patience_s`, it is an `EndpointError`. A wrong
  key, model or address is a `ConfigError`; a request that the server won't take is an `EndpointRefusal`, and
  an `EndpointTooLong` if it says that its model reads no more tokens.
- An answer is there within `timeout_s` or counts as none, also if the server never stops sending.
- The key comes from the environment and is in no message, representation or log; what a server says is
  quoted without any piece of it.

`httpx2` is imported at construction.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

from agentmem.chat.answer import Answer, Messages
from agentmem.config.endpoint import EndpointConfig
from agentmem.failures import ConfigError, EndpointError, EndpointRefusal, EndpointTooLong
from agentmem.pacing import Pace, backoff, retry_after
from agentmem.sampling import FinishReason

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

LATER = frozenset({408, 409, 425, 429})
"""Statuses below 500 that may be gone at the next attempt."""
REFUSED = frozenset({400, 413, 422})
LONGEST_ANSWER = 16 << 20
"""Bytes; no answer in text is as long."""
BYTES_A_TOKEN = 3
"""A cautious guess for tokenizers that aren't known: English has four, Chinese three."""
MESSAGE_TOKENS = 8
TOO_LONG = ("context length", "context_length", "maximum model length", "prompt is too long")
"""How servers say that a prompt doesn't fit."""
QUOTED = 200
PIECE = 6
"""Shortest piece of a key that is blotted out of what a server says."""


class Waiting(Protocol):
    """The clock."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class RealTime:
    """Of this machine."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """An attempt that failed and may go well later."""

    what: str
    asked_s: float | None = None


class Endpoint:
    """See the module's docstring. Close it in the event loop that used it."""

    def __init__(
        self,
        config: EndpointConfig,
        model: str,
        *,
        context_length: int | None = None,
        clock: Waiting | None = None,
    ) -> None:
        """`context_length` in tokens; None: nothing is known of it. Raises ConfigError without a key."""
        import httpx2

        self._config, self._model, self._context = config, model, context_length
        self._clock: Waiting = clock or RealTime()
        self._key = _key(config.key_env)
        self._client = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx2.Timeout(config.timeout_s),
            limits=httpx2.Limits(max_connections=config.concurrency),
        )
        self._address = config.url.rstrip("/") + "/chat/completions"
        self._slots = asyncio.Semaphore(config.concurrency)
        self._pace = Pace(config.requests_per_minute)
        self._random = random.Random()
        self.retries = 0
        """Attempts that had to be repeated."""

    def __repr__(self) -> str:
        return f"Endpoint({self._config.url!r}, model={self._model!r})"

    @property
    def model(self) -> str:
        """As the endpoint calls it."""
        return self._model

    @property
    def concurrency(self) -> int:
        """See ChatModel."""
        return self._config.concurrency

    def fits(self, messages: Messages, max_tokens: int) -> bool:
        """By a cautious guess of the prompt's tokens."""
        if self._context is None:
            return True
        size = sum(len(text.encode("utf-8", "replace")) for _, text in messages)
        guessed = -(-size // BYTES_A_TOKEN) + MESSAGE_TOKENS * len(messages)
        return guessed + max_tokens <= self._context

    async def answer(self, messages: Messages, *, max_tokens: int, temperature: float) -> Answer:
        """See ChatModel and the module's docstring."""
        wanted: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": role, "content": content} for role, content in messages],
            "max_tokens": max_tokens,
            "temperature": temperature,
            **self._config.extra,
        }
        body = {name: value for name, value in wanted.items() if value is not None}
        waited, attempt = 0.0, 0
        while True:
            attempt += 1
            found = await self._attempt(body)
            if isinstance(found, Answer):
                return found
            pause = backoff(attempt, found.asked_s, self._random.random())
            if attempt >= self._config.attempts or waited + pause > self._config.patience_s:
                raise EndpointError(
                    f"{self._where()} gave no answer in {_times(attempt)}: {found.what} (endpoint.attempts "
                    f"is {self._config.attempts}, endpoint.patience_s {self._config.patience_s:g})"
                )
            log.info("%s: %s; again in %.1f s", self._where(), found.what, pause)
            self.retries += 1
            waited += pause
            await self._clock.sleep(pause)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _attempt(self, body: dict[str, Any]) -> Answer | _Trouble:
        import httpx2

        async with self._slots:
            await self._turn()
            try:
                async with asyncio.timeout(self._config.timeout_s):
                    status, headers, content = await self._post(body)
            except (TimeoutError, httpx2.TimeoutException):
                return _Trouble(f"no whole answer within {self._config.timeout_s:g} s")
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                return _Trouble(f"{type(error).__name__}: {self._quoted(str(error))}")
            except httpx2.InvalidURL as error:
                raise ConfigError(f"endpoint.url {self._config.url}: {error}") from None
        if status == 200:
            status = _told_status(content) or status
        if status == 200:
            return self._read(content)
        if status in LATER or status >= 500:
            asked = retry_after(headers)
            if asked is not None:
                self._pace.pause(self._clock.now() + min(asked, self._config.patience_s))
            return _Trouble(f"status {status}{self._said(content)}", asked)
        self._refuse(status, content)

    async def _turn(self) -> None:
        """Wait until one more request may start."""
        start = self._pace.reserve(self._clock.now())
        while (left := self._pace.held_until(start) - self._clock.now()) > 0:
            await self._clock.sleep(left)

    async def _post(self, body: dict[str, Any]) -> tuple[int, httpx2.Headers, bytes]:
        async with self._client.stream("POST", self._address, json=body) as response:
            content = b""
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > LONGEST_ANSWER:
                    raise EndpointRefusal(f"{self._where()}: an answer of more than {LONGEST_ANSWER} bytes")
            return response.status_code, response.headers, content

    def _read(self, content: bytes) -> Answer:
        try:
            reply = json.loads(content)
            choice, usage = reply["choices"][0], reply.get("usage") or {}
            text = choice["message"].get("content")
            counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
            if not isinstance(text, str | None):
                raise ValueError
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise ConfigError(
                f"{self._where()}: what it answers is no chat completion: {self._quoted(_text(content))!r}"
            ) from None
        prompt, completion = (n if isinstance(n, int) and n >= 0 else None for n in counts)
        cut = choice.get("finish_reason") == "length"
        return Answer(
            # Half a character (a pair of surrogates that max_tokens cut) can't be stored.
            text=(text or "").encode("utf-8", "replace").decode("utf-8"),
            finish_reason=FinishReason.LENGTH if cut else FinishReason.STOP,
            prompt_tokens=prompt,
            completion_tokens=completion,
        )

    def _refuse(self, status: int, content: bytes) -> NoReturn:
        """Raise what a status that no further attempt changes means."""
        if status in (401, 403):  # what it says may repeat a part of the key
            name = self._config.key_env
            key = f"the key in {name}" if name else "a request without a key (endpoint.key_env is null)"
            raise ConfigError(f"{self._where()} refuses {key} (status {status})")
        if status in REFUSED:
            kind = EndpointTooLong if status == 413 or _too_long(content) else EndpointRefusal
            raise kind(f"{self._where()} refuses the request: status {status}{self._said(content)}")
        raise ConfigError(
            f"{self._where()}: status {status}{self._said(content)}; endpoint.url is what comes before "
            "/chat/completions, and the model one that it has"
        )

    def _where(self) -> str:
        return f"endpoint {self._config.url}, model {self._model}"

    def _said(self, content: bytes) -> str:
        """The server's own message, if it has one."""
        try:
            reply = json.loads(content)
            error = reply.get("error", reply)
            said = error.get("message") if isinstance(error, dict) else error
        except (ValueError, AttributeError):
            return ""
        return f": {self._quoted(said)}" if isinstance(said, str) and said.strip() else ""

    def _quoted(self, text: str) -> str:
        """In one line, short, without a piece of the key."""
        return without(" ".join(text.split()), self._key)[:QUOTED]


def without(text: str, secret: str) -> str:
    """The text with every piece of the secret, from six characters on, blotted out."""
    hidden = bytearray(len(text))
    for start in range(len(text)):
        end = start + PIECE
        if text[start:end] not in secret or len(text) < end or not secret:
            continue
        while end < len(text) and text[start : end + 1] in secret:
            end += 1
        hidden[start:end] = b"\1" * (end - start)
    return "".join("*" if blot else char for char, blot in zip(text, hidden, strict=True))


def _key(variable: str | None) -> str:
    """The key; empty where none is asked for. Raises ConfigError, never with the key in it."""
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"the environment has no {variable}, which endpoint.key_env names (null: the endpoint asks for "
            "no key)"
        )
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"the key in {variable} holds characters that a request can't carry")
    return key


def _too_long(content: bytes) -> bool:
    """Whether a refusal is for the length of the prompt: by the protocol's code, or in a server's words."""
    try:
        reply = json.loads(content)
        error = reply.get("error", reply)
        if isinstance(error, dict) and error.get("code") == "context_length_exceeded":
            return True
        said = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        return False
    return isinstance(said, str) and any(words in said.lower() for words in TOO_LONG)


def _told_status(content: bytes) -> int | None:
    """The status of a failure that came as a success (gateways do so): `{"error": {"code": 429, …}}`."""
    try:
        reply = json.loads(content)
        code = reply["error"]["code"] if "choices" not in reply else None
    except (ValueError, KeyError, TypeError):
        return None
    return code if isinstance(code, int) and code >= 400 else None


def _times(attempts: int) -> str:
    return "1 attempt" if attempts == 1 else f"{attempts} attempts"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
