"""The failure taxonomy: every failure is classified where it happens.

`infrastructure`  a machine, process or connection failed: retry elsewhere, within a budget.
`data`            the input is wrong: retrying hurts, so it surfaces at once.
`policy`          the model's own doing: a legitimate outcome, not an error (a stop reason instead).

An unclassified exception counts as `data`, so that bugs stay loud. Each class has an exit code of its own.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class FailureKind(StrEnum):
    """Who is to blame, and so what to do."""

    INFRASTRUCTURE = "infrastructure"
    DATA = "data"
    POLICY = "policy"


class AgentMemError(Exception):
    """Base of all errors that AgentMem raises on purpose. The message is one line that a user can act on."""

    kind: FailureKind = FailureKind.DATA
    exit_code: int = 1


class ConfigError(AgentMemError):
    """A setting is unknown, of the wrong type, or impossible together with another."""

    exit_code = 2


class ModelError(AgentMemError):
    """A model path, vocabulary or chat template can't serve."""

    exit_code = 3


class InfrastructureError(AgentMemError):
    """A process, connection or machine failed; the work can be done elsewhere."""

    kind = FailureKind.INFRASTRUCTURE
    exit_code = 4


class EngineError(InfrastructureError):
    """An engine is dead, unreachable, or missed its deadline."""


class EndpointError(InfrastructureError):
    """A model behind an endpoint gave no answer within the patience that was set: it is down, too slow, or
    wants fewer requests."""


class EndpointRefusal(AgentMemError):
    """An endpoint won't take this one request (too long, against its rules); others may go well."""


class EndpointTooLong(EndpointRefusal):
    """The request has more tokens than the endpoint's model reads."""


class EnvError(InfrastructureError):
    """An environment crashed, hung beyond its deadline, or its worker died."""


class WeightSyncError(InfrastructureError):
    """A weight update failed; the old version keeps serving."""

    def __init__(self, engine: str, phase: str, reason: str) -> None:
        super().__init__(f"weight update failed: engine {engine}, phase {phase}: {reason}")
        self.engine, self.phase, self.reason = engine, phase, reason

    def __reduce__(self) -> tuple[type[WeightSyncError], tuple[str, str, str]]:
        return (type(self), (self.engine, self.phase, self.reason))


class ReplayError(InfrastructureError):
    """The replay server can't be used: unreachable, refused, or with unsafe settings."""

    exit_code = 5


class ResourceError(AgentMemError):
    """More is asked for than the cluster has."""

    exit_code = 6


class StalledError(InfrastructureError):
    """No progress for longer than the watchdog's limit; the message names what is waited for."""

    exit_code = 7


class BudgetError(InfrastructureError):
    """A restart budget is spent."""

    exit_code = 8


class NumericsError(AgentMemError):
    """Too many updates in a row were skipped because of non-finite values."""

    exit_code = 9


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure as data, as it travels with a trial or a dead letter."""

    kind: FailureKind
    what: str
    where: str = ""

    @classmethod
    def of(cls, error: BaseException, where: str = "") -> Failure:
        """Classify an exception where the information still exists (before it crosses an actor boundary)."""
        kind = error.kind if isinstance(error, AgentMemError) else FailureKind.DATA
        return cls(kind=kind, what=f"{type(error).__name__}: {error}", where=where)
