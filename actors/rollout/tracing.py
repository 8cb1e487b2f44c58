"""A trial as a trace: a span for the whole, and one in it for each wait on environment, engine or memory.

    trial ─┬─ advise
           ├─ env.reset
           ├─ act, env.step, act, env.step, …
           ├─ reflect
           └─ env.restart …

The trial loop knows nothing of it: it is given an environment, a policy and an advisor that note when they
are called. A trial that isn't recorded is given its own ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from actors.rollout.protocols import Advisor, Environment, Outcome, Policy, Reply, Situation
from agentmem.trajectory import Ticket, Trial, Turn, TurnKind
from envs.base import EpisodeRecord, Instance, Prompt, PromptStyle, View

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


class NoSpans:
    """Of a trial that isn't recorded: everything stays as it is."""

    def env(self, env: Environment) -> Environment:
        return env

    def policy(self, policy: Policy) -> Policy:
        return policy

    def advisor(self, advisor: Advisor | None) -> Advisor | None:
        return advisor

    def outcome(self, trial: Trial) -> None: ...


class TrialSpans:
    """Makes the spans within one trial's."""

    def __init__(self, tracer: Tracer, trial: Span) -> None:
        from opentelemetry.trace import set_span_in_context

        self._tracer, self._trial, self._within = tracer, trial, set_span_in_context(trial)

    def env(self, env: Environment) -> Environment:
        """The environment, with a span for each call."""
        return _TracedEnv(env, self)

    def policy(self, policy: Policy) -> Policy:
        """The policy, with a span for each answer, named by the kind of turn."""
        return _TracedPolicy(policy, self)

    def advisor(self, advisor: Advisor | None) -> Advisor | None:
        """The advisor, if there is one, with a span for each answer."""
        return None if advisor is None else _TracedAdvisor(advisor, self)

    def outcome(self, trial: Trial) -> None:
        """Note what became of the trial."""
        self._trial.set_attributes(
            {
                "episodes": len(trial.episodes),
                "turns": sum(len(episode.turns) for episode in trial.episodes),
                "success": trial.success,
                "failure": "" if trial.failure is None else trial.failure.what,
            }
        )

    @contextmanager
    def span(self, name: str) -> Iterator[Span]:
        """Around one call; an error that leaves it is noted."""
        span = self._tracer.start_span(name, context=self._within)
        with _noting(span):
            yield span


@contextmanager
def trial_spans(tracer: Tracer | None, ticket: Ticket) -> Iterator[TrialSpans | NoSpans]:
    """Around one attempt at a ticket."""
    if tracer is None:
        yield NoSpans()
        return
    task = ticket.task
    about: dict[str, str | int] = {
        "ticket": ticket.id,
        "attempt": ticket.attempt,
        "environment": task.environment,
        "instance": str(task.instance),
        "split": task.split.value,
    }
    trial = tracer.start_span("trial", attributes=about)
    with _noting(trial):
        yield TrialSpans(tracer, trial) if trial.is_recording() else NoSpans()


@contextmanager
def _noting(span: Span) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        span.record_exception(error)
        raise
    finally:
        span.end()


class _TracedEnv:
    def __init__(self, env: Environment, spans: TrialSpans) -> None:
        self._env, self._spans = env, spans

    @property
    def style(self) -> PromptStyle:
        return self._env.style

    async def reset(self, instance: Instance) -> Situation:
        with self._spans.span("env.reset"):
            return await self._env.reset(instance)

    async def restart(self) -> Situation:
        with self._spans.span("env.restart"):
            return await self._env.restart()

    async def step(self, action: str) -> Outcome:
        with self._spans.span("env.step") as span:
            outcome = await self._env.step(action)
            span.set_attributes({"invalid": outcome.invalid, "reward": outcome.reward})
            return outcome

    async def summarise(self, record: EpisodeRecord) -> str:
        with self._spans.span("env.summarise"):
            return await self._env.summarise(record)

    async def close(self) -> None:
        await self._env.close()


class _TracedPolicy:
    def __init__(self, policy: Policy, spans: TrialSpans) -> None:
        self._policy, self._spans = policy, spans

    @property
    def name(self) -> str:
        return self._policy.name

    async def respond(
        self, prompt: Prompt, kind: TurnKind, student: Prompt | None = None, view: View | None = None
    ) -> Reply | None:
        with self._spans.span(kind.value) as span:
            reply = await self._policy.respond(prompt, kind, student, view)
            if reply is None:
                span.set_attribute("refused", "the prompt doesn't fit")
                return None
            versions = reply.versions or ()
            span.set_attributes(
                {
                    "policy": self._policy.name,
                    "prompt_tokens": len(reply.prompt_ids),
                    "sampled_tokens": len(reply.response_ids or ()),
                    "finish": reply.finish_reason.value,
                    **({"version": versions[-1]} if versions else {}),
                }
            )
            return reply


class _TracedAdvisor:
    def __init__(self, advisor: Advisor, spans: TrialSpans) -> None:
        self._advisor, self._spans = advisor, spans

    @property
    def every_episode(self) -> bool:
        return self._advisor.every_episode

    async def advise(self, situation: Situation) -> Turn:
        with self._spans.span("advise") as span:
            turn = await self._advisor.advise(situation)
            span.set_attribute("abstained", not turn.response)
            return turn
