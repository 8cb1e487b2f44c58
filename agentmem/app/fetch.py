"""Downloads a file of the environments' data: resumable, verified, whole or not at all.

What has come so far lies beside the file as `NAME.partial`; the next attempt, of this process or another,
asks the server for the rest alone. Size and SHA-256 are checked before the file gets its name by a rename.
A lock (`NAME.lock`) lets one process fetch while others wait, and then find the file there.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import http.client
import lzma
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal, cast

from agentmem.failures import AgentMemError, InfrastructureError
from envs.sources import Source

State = Literal["present", "missing", "differs"]
CHUNK = 1 << 16
ATTEMPTS = 4
"""Attempts at a download that breaks off; each goes on where the last one ended."""
TIMEOUT_S = 30.0


class FetchError(InfrastructureError):
    """A file couldn't be downloaded."""


class DataFileError(AgentMemError):
    """A file has another content than it should have, or can't be written."""


def state(source: Source, directory: Path) -> State:
    """Whether the file is there, with the right content."""
    path = directory / source.path
    if not path.is_file():
        return "missing"
    try:
        with _opened(path, source.packing) as file:
            return "present" if _digest(file) == source.sha256 else "differs"
    except (OSError, EOFError, lzma.LZMAError):
        return "differs"


def fetch(source: Source, directory: Path, progress: Callable[[int], None] = lambda done: None) -> bool:
    """Have the file in `directory`. Whether it was downloaded now. `progress` gets the bytes that are there.

    Raises FetchError or DataFileError, of one line.
    """
    if state(source, directory) == "present":
        return False
    path = directory / source.path
    if source.url is None:
        raise DataFileError(f"{source.path} has no public download: put it at {path} ({source.note})")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(f"{path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if state(source, directory) == "present":
                return False
            partial = Path(f"{path}.partial")
            _download(source, partial, progress)
            _verify(source, partial)
            _place(source, partial, path)
    except OSError as error:
        raise DataFileError(
            f"{path} can't be written ({error.strerror or error}): set AGENTMEM_DATA to a directory that can"
        ) from None
    return True


def _download(source: Source, partial: Path, progress: Callable[[int], None]) -> None:
    """Append to `partial` until it has the size. Raises FetchError."""
    problem = ""
    for _ in range(ATTEMPTS):
        have = partial.stat().st_size if partial.exists() else 0
        if have > source.size:
            partial.unlink()
            have = 0
        if have == source.size:
            return
        try:
            with _asked(cast(str, source.url), have) as reply:
                mode = "ab" if reply.status == 206 else "wb"
                _copy(reply, partial, mode, source.size, progress)
            problem = "the connection broke off"
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"status {error.code}"
            if error.code == 416:  # the server's file is shorter than what is here: from the start
                partial.unlink(missing_ok=True)
            elif error.code < 500:
                break
        except urllib.error.URLError as error:
            problem = str(getattr(error.reason, "strerror", None) or error.reason)
        except (http.client.HTTPException, ConnectionError, TimeoutError) as error:
            problem = str(error) or type(error).__name__
    if partial.exists() and partial.stat().st_size == source.size:
        return
    raise FetchError(f"{source.url} can't be fetched ({problem}): try again to go on")


def _asked(url: str, have: int) -> http.client.HTTPResponse:
    headers = {"User-Agent": "agentmem", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)
    return cast(http.client.HTTPResponse, urllib.request.urlopen(request, timeout=TIMEOUT_S))


def _copy(
    reply: http.client.HTTPResponse, partial: Path, mode: str, size: int, progress: Callable[[int], None]
) -> None:
    with open(partial, mode) as file:
        while data := reply.read1(CHUNK):
            file.write(data)
            progress(file.tell())
            if file.tell() > size:
                return


def _verify(source: Source, partial: Path) -> None:
    with open(partial, "rb") as file:
        found = _digest(file)
    if found != source.sha256:
        partial.unlink()
        raise DataFileError(
            f"{source.url} has another content than expected (SHA-256 {found[:12]}…, "
            f"not {source.sha256[:12]}…): nothing was kept"
        )


def _place(source: Source, partial: Path, path: Path) -> None:
    """Give the file its name, packed if it is stored so."""
    if not source.packing:
        os.replace(partial, path)
        return
    packed = Path(f"{path}.packed")
    with open(partial, "rb") as read, _packer(packed, source.packing) as written:
        shutil.copyfileobj(read, written)
    os.replace(packed, path)
    partial.unlink()


def _packer(path: Path, packing: str) -> IO[bytes]:
    opener = gzip.open if packing == "gzip" else lzma.open
    return cast(IO[bytes], opener(path, "wb"))


def _opened(path: Path, packing: str) -> IO[bytes]:
    if not packing:
        return open(path, "rb")
    opener = gzip.open if packing == "gzip" else lzma.open
    return cast(IO[bytes], opener(path, "rb"))


def _digest(file: IO[bytes]) -> str:
    total = hashlib.sha256()
    while data := file.read(CHUNK):
        total.update(data)
    return total.hexdigest()
