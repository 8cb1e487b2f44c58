"""Payloads on the wire: the trajectory codec's msgpack, zstd-compressed, split above 1 MB.

A payload is a zstd frame (with checksum) or, at level 0, the bare msgpack; the reader tells them apart by the
first four bytes (an envelope of msgpack never starts like a zstd frame).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeVar, cast

import msgspec
import zstandard

from agentmem.trajectory import Episode, SchemaError, Trial, Turn
from agentmem.trajectory import codec as trajectory

CHUNK_BYTES = 1 << 20
MAX_PAYLOAD_BYTES = 256 << 20
"""More than this is a bug in an environment rather than a trial."""

_envelope = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

T = TypeVar("T", Trial, Episode, Turn)
Payload = bytes | memoryview
"""A payload as it was read: maybe a view of a buffer that is used again."""


class CodecError(SchemaError):
    """A stored payload is damaged."""


class Codec:
    """Values -> payload bytes -> values. `level` is zstd's (0: not compressed)."""

    def __init__(self, level: int = 1) -> None:
        self.level = level
        self._local = threading.local()

    def pack(self, value: Trial | Episode | Turn) -> bytes:
        """Value -> one payload."""
        return self.compress(trajectory.encode(value))

    def unpack(self, payload: Payload, kind: type[T]) -> T:
        """Payload -> value. Raises SchemaError (another version) or CodecError (damaged)."""
        data = cast(bytes, self.decompress(payload))  # any buffer will do
        try:
            return trajectory.decode(data, kind)
        except SchemaError as error:
            if _is_other_version(data):
                raise
            raise CodecError(f"payload of {len(payload)} bytes is damaged: {error}") from error

    def compress(self, data: bytes) -> bytes:
        """Raises SchemaError for more than `MAX_PAYLOAD_BYTES`."""
        if len(data) > MAX_PAYLOAD_BYTES:
            raise SchemaError(f"payload has {len(data)} bytes: at most {MAX_PAYLOAD_BYTES} are allowed")
        if self.level == 0:
            return data
        compressor = getattr(self._local, "compressor", None)
        if compressor is None:
            compressor = zstandard.ZstdCompressor(level=self.level, write_checksum=True)
            self._local.compressor = compressor
        packed: bytes = compressor.compress(data)
        return packed

    def decompress(self, payload: Payload) -> Payload:
        """Raises CodecError."""
        if payload[:4] != _ZSTD_MAGIC:
            return payload
        decompressor = getattr(self._local, "decompressor", None)
        if decompressor is None:
            decompressor = self._local.decompressor = zstandard.ZstdDecompressor()
        try:
            data: bytes = decompressor.decompress(payload, max_output_size=MAX_PAYLOAD_BYTES)
        except zstandard.ZstdError as error:
            raise CodecError(f"payload of {len(payload)} bytes is damaged: {error}") from error
        return data


def _is_other_version(data: bytes) -> bool:
    try:
        return _envelope.decode(data)[0] not in trajectory.KNOWN
    except msgspec.MsgspecError:
        return False


def split(payload: bytes) -> list[bytes | memoryview]:
    """Payload -> chunks of at most 1 MB, at least one."""
    if len(payload) <= CHUNK_BYTES:
        return [payload]
    view = memoryview(payload)
    return [view[i : i + CHUNK_BYTES] for i in range(0, len(payload), CHUNK_BYTES)]


def join(chunks: Sequence[Payload | None]) -> Payload:
    """Chunks -> payload. Raises CodecError if one is missing."""
    there = [c for c in chunks if c is not None]
    if len(there) != len(chunks) or not there:
        raise CodecError(
            f"payload is damaged: {len(chunks) - len(there)} of {len(chunks)} chunks are missing"
        )
    return there[0] if len(there) == 1 else b"".join(there)


class EpisodeRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is saved when episode k of a running trial has ended: it, and the turns around it."""

    schema: int
    episode: Episode
    reflections: tuple[Turn, ...] = ()
    """Written since the previous save, in order: LaMer's reflection between episode k-1 and k."""
    advice: tuple[Turn, ...] = ()
    """Given since the previous save, in order."""
    wall_s: float = 0.0


_record_encoder = msgspec.msgpack.Encoder()
_record_decoder = msgspec.msgpack.Decoder(EpisodeRecord)
_record_version = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw, msgspec.Raw, msgspec.Raw, msgspec.Raw])


def encode_record(record: EpisodeRecord) -> bytes:
    """Record -> msgpack."""
    return _record_encoder.encode(record)


def decode_record(data: Payload) -> EpisodeRecord:
    """Msgpack -> record. Raises SchemaError."""
    try:
        version = _record_version.decode(data)[0]
        if version not in trajectory.KNOWN:
            known = " and ".join(map(str, trajectory.KNOWN))
            raise SchemaError(f"progress has schema version {version}: this program reads {known}")
        return _record_decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise CodecError(f"progress of {len(data)} bytes is damaged: {error}") from error
