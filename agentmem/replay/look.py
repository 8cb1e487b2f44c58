"""Looking at a run's buffer from outside, without changing anything in it.

A live embedded server is found by the record that it keeps in its data directory (mode 0600, so only its
owner gets in). Data that no server serves is copied, and a server on the copy is asked.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from agentmem.failures import ReplayError
from agentmem.replay.buffer import ReplayBuffer
from agentmem.replay.codec import CodecError
from agentmem.replay.embedded import EmbeddedServer, _start_time
from agentmem.replay.table import Settings
from agentmem.trajectory import SchemaError, Trial

_AOF = "appendonlydir"


class StoredTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial whose payload is in the buffer."""

    ticket: str
    place: str
    """Where its group is (open, ready, taken, held, replay), or `eval`."""
    owner: str
    """Its group, or its evaluation batch."""
    environment: str
    payload_bytes: int
    chunks: int
    tokens: int
    """Sampled tokens."""
    at_ms: int
    """When it was committed, Unix time."""


def live_url(data_dir: Path) -> str | None:
    """The private URL of the server that has this data directory open on this machine, if there is one.

    Raises ReplayError if its record belongs to somebody else.
    """
    path = data_dir / "server.json"
    try:
        record = json.loads(path.read_text())
        pid, started, url = int(record["pid"]), record["started"], str(record["url"])
    except PermissionError as error:
        raise ReplayError(f"the buffer of a running run is its owner's alone: can't read {path}") from error
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url if started is not None and _start_time(pid) == started else None


@contextlib.contextmanager
def look(
    run: str, *, url: str | None = None, data_dir: Path | None = None, settings: Settings | None = None
) -> Iterator[ReplayBuffer]:
    """A buffer to read from: at `url`, else of the embedded server of `data_dir`, live or not.

    Raises ReplayError.
    """
    with contextlib.ExitStack() as stack:
        if url is None:
            if data_dir is None:
                raise ReplayError(f"run {run}: neither a URL nor a data directory of its buffer is known")
            url = live_url(data_dir) or stack.enter_context(_copy_server(run, data_dir))
        yield stack.enter_context(ReplayBuffer(url, run, deadline_s=5.0, only_look=True, settings=settings))


@contextlib.contextmanager
def _copy_server(run: str, data_dir: Path) -> Iterator[str]:
    if not any((data_dir / _AOF).glob("*.manifest")):
        raise ReplayError(f"run {run} isn't running and left no buffer in {data_dir}")
    with tempfile.TemporaryDirectory(prefix="am-look-") as folder:
        try:
            shutil.copytree(data_dir / _AOF, Path(folder) / _AOF)
        except (OSError, shutil.Error) as error:
            raise ReplayError(f"the buffer in {data_dir} can't be copied to {folder}: {error}") from error
        with EmbeddedServer(folder) as server:
            yield server.url


def stored_trials(buffer: ReplayBuffer) -> list[StoredTrial]:
    """All trials whose payload is there, the newest commit first."""
    client, call, keys = buffer.server.client, buffer.server.call, buffer.keys
    owners: list[tuple[str, str]] = [
        ("open", g.decode()) for g in call(lambda: client.smembers(keys("open")))
    ]
    for place in ("ready", "taken", "held", "replay"):
        found: list[bytes] = call(partial(client.zrange, keys(place), 0, -1))
        owners += [(place, g.decode()) for g in found]
    batches = keys("eval:")
    owners += [("eval", k.decode()[len(batches) :]) for k in client.scan_iter(_literal(batches) + "*", 1000)]
    out: list[StoredTrial] = []
    for place, owner in owners:
        key = keys("eval:" + owner if place == "eval" else "g:" + owner)
        fields: dict[bytes, bytes] = call(partial(client.hgetall, key))
        for field, record in fields.items():
            if field.startswith(b"t:") and b":" in record:
                size, _, _, chunks, tokens, at_ms, env = record.decode().split(":", 6)
                out.append(
                    StoredTrial(
                        ticket=field[2:].decode(),
                        place=place,
                        owner=owner,
                        environment=env,
                        payload_bytes=int(size),
                        chunks=int(chunks),
                        tokens=int(tokens),
                        at_ms=int(at_ms),
                    )
                )
    return sorted(out, key=lambda s: (-s.at_ms, s.ticket))


def _literal(text: str) -> str:
    """A key as a glob pattern that matches it alone."""
    return "".join("\\" + c if c in "*?[]^\\" else c for c in text)


def read_trials(
    buffer: ReplayBuffer, items: Sequence[StoredTrial]
) -> Iterator[tuple[StoredTrial, Trial | CodecError]]:
    """The trials themselves, in order; one that can't be read (or is gone by now) is its error."""
    wanted = [(s.ticket, s.payload_bytes, s.chunks) for s in items]
    for item, payload in zip(items, buffer.read_payloads(wanted), strict=True):
        try:
            if isinstance(payload, CodecError):
                raise payload
            yield item, buffer.codec.unpack(payload, Trial)
        except SchemaError as error:
            yield item, CodecError(str(error))
