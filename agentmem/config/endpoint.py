"""How a model behind an OpenAI-compatible endpoint is reached."""

from __future__ import annotations

from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import model_validator

from agentmem.config.section import Count, Positive, Section


class EndpointConfig(Section):
    """An endpoint and how patient its client is. Holds no secret: the key stays in the environment."""

    url: str
    """Where `/chat/completions` stands below: `https://host/v1`."""
    key_env: str | None = "OPENAI_API_KEY"
    """The environment variable with the key; null: the endpoint asks for none."""
    timeout_s: Positive = 120.0
    """Longest wait for one answer, all of it."""
    attempts: Count = 8
    """Most attempts of one request."""
    patience_s: Positive = 600.0
    """Most seconds that one request waits between its attempts, all added."""
    concurrency: Count = 8
    """Requests under way at once."""
    requests_per_minute: Positive | None = None
    """Requests started in a minute, evenly spread; null: as many as there are."""
    extra: dict[str, Any] = {}
    """Laid over the body of every request; null takes a key out. `{max_tokens: null, max_completion_tokens:
    2048}`, or `{chat_template_kwargs: {enable_thinking: false}}`."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        parts = urlsplit(self.url)
        if "@" in parts.netloc:
            raise ValueError(
                f"url of {parts.hostname} holds a user or password: put the key into the variable that "
                "key_env names"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"url is {self.url!r}: an address such as https://host/v1 is needed")
        return self
