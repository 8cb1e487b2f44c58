"""Trials and tickets as bytes: msgpack with the schema version in front. Never pickle.

The first element of a payload is its schema version; a reader refuses one that it doesn't know with a message
that says which version it found and which it reads. What has a picture in it has a version of its own, so
that a program that knows no pictures says so; all else is written as ever, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from agentmem.failures import AgentMemError
from agentmem.trajectory.structs import Episode, Ticket, Trial, Turn

SCHEMA_VERSION = 1
PICTURE_VERSION = 2
"""Of payloads with a picture; everything else is as in version 1."""
KNOWN = (SCHEMA_VERSION, PICTURE_VERSION)

T = TypeVar("T", Trial, Ticket, Episode, Turn)


class SchemaError(AgentMemError):
    """A payload was written by another schema version or isn't a payload at all."""


_encoder = msgspec.msgpack.Encoder()
_envelope = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_decoders: dict[type, msgspec.msgpack.Decoder] = {  # type: ignore[type-arg]
    kind: msgspec.msgpack.Decoder(kind) for kind in (Trial, Ticket, Episode, Turn)
}


def version_of(turns: Sequence[Turn]) -> int:
    """The schema version of what holds these advice turns: no other turn has a picture."""
    return PICTURE_VERSION if any(turn.image is not None for turn in turns) else SCHEMA_VERSION


def encode(value: Trial | Ticket | Episode | Turn) -> bytes:
    """Value -> bytes."""
    version = SCHEMA_VERSION
    if isinstance(value, Trial):
        version = version_of(value.advice)
    elif isinstance(value, Turn):
        version = version_of((value,))
    return _encoder.encode((version, value))


def decode(data: bytes, kind: type[T]) -> T:
    """Bytes -> value of `kind`. Raises SchemaError."""
    try:
        version, raw = _envelope.decode(data)
    except msgspec.MsgspecError as error:
        raise SchemaError(f"payload of {len(data)} bytes is no {kind.__name__}: {error}") from error
    if version not in KNOWN:
        raise SchemaError(
            f"payload has schema version {version}: this program reads versions {KNOWN[0]} to {KNOWN[-1]} "
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
