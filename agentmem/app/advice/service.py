"""Advice over HTTP: `POST /v1/advise`, `GET /healthz`, `GET /metrics`, `GET /openapi.json`. FastAPI.

- A question is answered by the same `Advisor` that a Python program uses; questions under way at once are
  batched by its engine.
- An answer that doesn't come in time abstains, with `late: true`; it is no error, since the agent goes on.
- Whatever isn't answered is `{"error": "one line"}` with a status: 400 no JSON, 401 token, 408 and 413 body,
  422 a field, 429 too many questions at once, 500 a bug, 503 the engine is dead.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from actors.advisor import Advisor
from agentmem.app.advice.gate import Gate
from agentmem.failures import AgentMemError, ConfigError, EngineError
from agentmem.memory.advice_health import BINS
from agentmem.telemetry import Metrics
from agentmem.telemetry.prometheus import PrometheusSeries

log = logging.getLogger(__name__)

QUOTED = 80
LONGEST_WAIT_S = 600.0
SHOWN = (
    "agentmem_advice_total",
    "agentmem_advice_tokens_total",
    "agentmem_advice_choices_total",
    "agentmem_advice_decisions_total",
    "agentmem_advice_requests_total",
    "agentmem_advice_in_flight_requests",
    "agentmem_advice_duration_seconds",
    "agentmem_advice_seconds_total",
    "agentmem_generator_wait_seconds_total",
    "agentmem_served_version_count",
)
"""Metrics of a service; the same as a run's where they count the same."""


class Question(BaseModel):
    """What is asked. What isn't given is as the service was started with."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)

    query: Annotated[str, Field(min_length=1, description="The task, as the agent is told it.")]
    observation: Annotated[str, Field(description="What the agent sees first.")] = ""
    domain: Annotated[str, Field(description="Of a policy for several environments: which it is about.")] = ""
    threshold: Annotated[
        float | None,
        Field(allow_inf_nan=False, description="τ: a hint if its logit is larger by more than this."),
    ] = None
    max_tokens: Annotated[int | None, Field(ge=1, description="Longest hint.")] = None
    timeout_s: Annotated[
        float | None, Field(gt=0, le=LONGEST_WAIT_S, description="An answer that takes longer abstains.")
    ] = None


class Answer(BaseModel):
    """What the memory policy says (`agentmem.memory.advisor.Advice`)."""

    decision: str
    """`generate` or `abstain`."""
    text: str
    """The hint; empty on abstain."""
    p_generate: float | None
    tokens: int
    latency_s: float
    version: int | None
    late: bool
    """It abstains because no answer came in time."""


def service(advisor: Advisor, name: str, *, token: str, longest_body: int, most: int) -> FastAPI:
    """The application. `most`: questions under way at once; more are refused."""
    series = PrometheusSeries(SHOWN)
    metrics = Metrics(name, series)
    under_way = 0
    app = FastAPI(title="AgentMem advice", docs_url=None, redoc_url=None)
    app.add_middleware(Gate, token=token, longest_body=longest_body, metrics=metrics)

    @app.post("/v1/advise", response_model=Answer)
    async def advise(question: Question) -> Any:
        nonlocal under_way
        if under_way >= most:
            return said(429, f"{most} questions are under way; ask again later", {"Retry-After": "1"})
        advisor.check_alive()
        under_way, began = under_way + 1, time.monotonic()
        try:
            answer = await asyncio.wrap_future(
                advisor.submit(
                    question.query,
                    question.observation,
                    domain=question.domain,
                    threshold=question.threshold,
                    max_tokens=question.max_tokens,
                    timeout_s=question.timeout_s,
                )
            )
        finally:
            under_way -= 1
        metrics.observe("agentmem_advice_duration_seconds", time.monotonic() - began)
        return Answer(
            decision=answer.decision.value,
            text=answer.text,
            p_generate=answer.p_generate,
            tokens=answer.tokens,
            latency_s=answer.latency_s,
            version=answer.version,
            late=answer.late,
        )

    @app.get("/healthz")
    async def healthz() -> Any:
        advisor.check_alive()
        return {"status": "ok", "version": advisor.version}

    @app.get("/metrics")
    async def measured() -> Response:
        export(advisor, metrics, under_way)
        return Response(series.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.exception_handler(RequestValidationError)
    async def misunderstood(_: Request, error: RequestValidationError) -> Response:
        return said(*one_line(error))

    @app.exception_handler(HTTPException)
    async def nowhere(request: Request, error: HTTPException) -> Response:
        return said(error.status_code, f"{request.method} {request.url.path}: {error.detail}")

    @app.exception_handler(AgentMemError)
    async def refused(_: Request, error: AgentMemError) -> Response:
        status = 422 if isinstance(error, ConfigError) else 503 if isinstance(error, EngineError) else 500
        if status == 500:
            log.exception("a question failed", exc_info=error)
        return said(status, str(error))

    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        return said(500, f"{type(error).__name__}: {error}")

    return app


def said(status: int, why: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A refusal."""
    return JSONResponse({"error": why}, status, headers)


def one_line(error: RequestValidationError) -> tuple[int, str]:
    """Status and text of the first thing that is wrong with a body: the field, what is there, what can be."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:])
    if first["type"] == "json_invalid":
        return 400, f"the body is no JSON: {first['ctx']['error']} at character {place}"
    if not place:
        return 422, f"the body: {first['msg']}"
    if first["type"] == "missing":
        return 422, f"{place} is missing"
    if first["type"] == "extra_forbidden":
        return 422, f"{place}: no such field; there are {', '.join(Question.model_fields)}"
    found = json.dumps(first["input"], ensure_ascii=False, default=str)
    return 422, f"{place} is {found[:QUOTED]}: {first['msg']}"


def export(advisor: Advisor, metrics: Metrics, under_way: int) -> None:
    """What the advisor has counted so far."""
    stats = advisor.stats()
    for reason, count in (
        ("generate", stats.generated),
        ("abstain", stats.abstained),
        ("late", stats.late),
    ):
        metrics.total("agentmem_advice_total", count, reason=reason)
    metrics.total("agentmem_advice_decisions_total", stats.would_generate, reason="generate")
    metrics.total("agentmem_advice_decisions_total", stats.would_abstain, reason="abstain")
    metrics.total("agentmem_advice_tokens_total", stats.sampled_tokens, policy="memory")
    for number, count in enumerate(stats.p_generate):
        metrics.total("agentmem_advice_choices_total", count, reason=f"{number / BINS:g}")
    metrics.total("agentmem_generator_wait_seconds_total", stats.wait_s)
    metrics.gauge("agentmem_advice_in_flight_requests", under_way)
    metrics.gauge("agentmem_served_version_count", advisor.version)
