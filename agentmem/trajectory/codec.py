"""Trials and tickets as bytes: msgpack with the schema version in front. Never pickle.

The first element of a payload is `SCHEMA_VERSION`; a reader refuses any other with a message that says which
version it found and which it reads.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from agentmem.failures import AgentMemError
from agentmem.trajectory.structs import Episode, Ticket, Trial, Turn

SCHEMA_VERSION = 1

T = TypeVar("T", Trial, Ticket, Episode, Turn)


class SchemaError(AgentMemError):
    """A payload was written by another schema version or isn't a payload at all."""


_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_decoders: dict[type, msgspec.msgpack.Decoder] = {  # type: ignore[type-arg]
    kind: msgspec.msgpack.Decoder(kind) for kind in (Trial, Ticket, Episode, Turn)
}


def encode(value: Trial | Ticket | Episode | Turn) -> bytes:
    """Value -> bytes."""
    return _encoder.encode((SCHEMA_VERSION, value))


def decode(data: bytes, kind: type[T]) -> T:
    """Bytes -> value of `kind`. Raises SchemaError."""
    try:
        version, raw = _envelope.decode(data)
    except msgspec.MsgspecError as error:
        raise SchemaError(f"payload of {len(data)} bytes is no {kind.__name__}: {error}") from error
    if version != SCHEMA_VERSION:
        raise SchemaError(
            f"payload has schema version {version}: this program reads version {SCHEMA_VERSION} "
            "(finish or drop the old run's buffer, or use the program that wrote it)"
        )
    try:
        value: T = _decoders[kind].decode(raw)
    except msgspec.MsgspecError as error:
        raise SchemaError(f"payload is no valid {kind.__name__}: {error}") from error
    return value


def encode_trial(trial: Trial) -> bytes:
    """Trial -> bytes."""
    return encode(trial)


def decode_trial(data: bytes) -> Trial:
    """Bytes -> Trial. Raises SchemaError."""
    return decode(data, Trial)
