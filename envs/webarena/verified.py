"""Scoring by webarena-verified: the agent's answer in JSON, and what the browser sent, as a HAR file."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ANSWER = """\
{intent}

When you are done, send one message that is a JSON object with these keys and nothing around it:
"task_type": what the task was about, one of "RETRIEVE" (find something out), "MUTATE" (change something) \
and "NAVIGATE" (open a page);
"status": how it went, "SUCCESS", or one of "ACTION_NOT_ALLOWED_ERROR", "PERMISSION_DENIED_ERROR", \
"NOT_FOUND_ERROR", "DATA_VALIDATION_ERROR" and "UNKNOWN_ERROR";
"retrieved_data": a list of what was found out, or null if nothing was to be found out{schema};
"error_details": null, or why it didn't go well.\
"""


@dataclass(frozen=True, slots=True)
class VerifiedTask:
    """A task in the words of webarena-verified."""

    goal: str
    """What is to be done, and how to answer."""
    start_urls: tuple[str, ...]


class Verifier:
    """Scores tasks against sites at these addresses."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        from webarena_verified.api import WebArenaVerified
        from webarena_verified.types.config import WebArenaVerifiedConfig

        logging.getLogger("webarena_verified").setLevel(logging.ERROR)
        self._names = {f"__{site.upper()}__": address for site, address in addresses.items()}
        sites = {name: {"urls": [address]} for name, address in self._names.items()}
        self._verified = WebArenaVerified(config=WebArenaVerifiedConfig(environments=sites))

    def task(self, number: int) -> VerifiedTask:
        """The task of this id."""
        task = self._verified.get_task(number)
        starts = tuple(self._placed(url) for url in task.start_urls)
        return VerifiedTask(_ANSWER.format(intent=task.intent, schema=_schema(task)), starts)

    def score(self, number: int, answer: str, har: Path) -> float:
        """From 0 to 1. An answer in another form scores 0."""
        result = self._verified.evaluate_task(task_id=number, agent_response=answer, network_trace=har)
        return float(result.score)

    def _placed(self, url: str) -> str:
        for name, address in self._names.items():
            url = url.replace(name, address)
        return url


def _schema(task: Any) -> str:
    """What the entries of the list must look like, as JSON Schema."""
    for one in task.eval:
        schema = getattr(one, "results_schema", None)
        if schema and schema.get("type") == "array":
            return f", with entries of the form {json.dumps(dict(schema).get('items', {}), default=dict)}"
    return ""
