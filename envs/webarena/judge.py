"""The language model that judges answers which no rule can: an OpenAI-compatible endpoint.

WebArena's evaluators write the question and read the verdict; this only carries it. The key comes from the
environment and appears in no message.
"""

from __future__ import annotations

import os
from typing import Any

from envs.base import EnvLost
from envs.options import EnvSetupError
from envs.webarena.options import Options

KEY = "OPENAI_API_KEY"


class Judge:
    """Stands for the function by which libwebarena asks OpenAI."""

    def __init__(self, options: Options) -> None:
        import openai

        key = os.environ.get(KEY, "")
        if not key:
            raise EnvSetupError(
                f"webarena: fuzzy is judge, but the environment has no {KEY} (any word will do for an "
                "endpoint that asks for none)"
            )
        self._model = options.judge_model
        self._client = openai.OpenAI(
            api_key=key,
            base_url=options.judge_url or None,
            timeout=options.judge_timeout_s,
            max_retries=3,
        )

    def __call__(self, messages: list[dict[str, str]], max_tokens: int, **_: Any) -> str:
        """The verdict in words. Raises `EnvLost` if there is none to be had."""
        import openai

        try:
            answer = self._client.chat.completions.create(
                model=self._model,
                messages=messages,  # type: ignore[arg-type]
                temperature=0,
                max_tokens=max_tokens,
            )
        except openai.OpenAIError as error:
            # Its text may repeat a part of the key.
            status = getattr(error, "status_code", None)
            what = type(error).__name__ + (f", status {status}" if status else "")
            raise EnvLost(f"webarena: the judge at {self._client.base_url} gave no answer ({what})") from None
        return answer.choices[0].message.content or ""

    def close(self) -> None:
        """Close its connections."""
        self._client.close()
