"""Data are fetched from a real HTTP server: resumed, verified, whole or not at all, by one at a time."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentmem.app.fetch import ATTEMPTS, DataFileError, FetchError, fetch, state
from envs import registry
from envs.data import data_dir
from envs.sources import SOURCES, Source, sources

CONTENT = bytes(range(256)) * 2000


@dataclass
class Home:
    """A public home: what it serves, and how badly. `ranges` are the Range headers of the requests it got."""

    url: str = ""
    content: bytes = CONTENT
    breaks: list[int] = field(default_factory=list)
    """For each of the first requests: after how many bytes its connection ends."""
    status: int = 0
    ignores_ranges: bool = False
    ranges: list[str | None] = field(default_factory=list)
    gate: threading.Event | None = None


@pytest.fixture
def home() -> Iterator[Home]:
    served = Home()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            served.ranges.append(asked)
            if served.gate:
                served.gate.wait(30)
            if served.status:
                self.send_error(served.status)
                return
            start = (
                int(asked.removeprefix("bytes=").rstrip("-")) if asked and not served.ignores_ranges else 0
            )
            if start >= len(served.content):
                self.send_error(416)
                return
            body = served.content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            number = len(served.ranges) - 1
            self.wfile.write(body[: served.breaks[number]] if number < len(served.breaks) else body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}/file"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield served
        server.shutdown()
        thread.join(10)


def source(home: Home, content: bytes = CONTENT, **more: Any) -> Source:
    return Source("x", "sub/file", len(content), hashlib.sha256(content).hexdigest(), url=home.url, **more)


def others(directory: Path) -> list[str]:
    """What lies beside the file, locks excepted."""
    found = [path.name for path in (directory / "sub").iterdir()] if (directory / "sub").exists() else []
    return sorted(name for name in found if name != "file" and not name.endswith(".lock"))


def test_a_file_is_fetched_once(home: Home, tmp_path: Path) -> None:
    assert state(source(home), tmp_path) == "missing"
    seen: list[int] = []
    assert fetch(source(home), tmp_path, seen.append) is True
    assert (tmp_path / "sub/file").read_bytes() == CONTENT
    assert seen[-1] == len(CONTENT)
    assert seen == sorted(seen)
    assert fetch(source(home), tmp_path) is False
    assert (home.ranges, others(tmp_path), state(source(home), tmp_path)) == ([None], [], "present")


@pytest.mark.parametrize("packing", ["gzip", "xz"])
def test_a_file_may_be_stored_packed(home: Home, tmp_path: Path, packing: Any) -> None:
    packed = source(home, packing=packing)
    assert fetch(packed, tmp_path) is True
    stored = (tmp_path / "sub/file").read_bytes()
    assert len(stored) < len(CONTENT) / 10
    assert (gzip if packing == "gzip" else lzma).decompress(stored) == CONTENT
    assert (fetch(packed, tmp_path), others(tmp_path)) == (False, [])


def test_a_broken_connection_is_resumed_where_it_broke(home: Home, tmp_path: Path) -> None:
    home.breaks = [100_000, 150_000]
    assert fetch(source(home), tmp_path) is True
    assert home.ranges == [None, "bytes=100000-", "bytes=250000-"]
    assert (tmp_path / "sub/file").read_bytes() == CONTENT


def test_another_call_goes_on_after_the_attempts_are_spent(home: Home, tmp_path: Path) -> None:
    home.breaks = [1000] * ATTEMPTS
    with pytest.raises(FetchError, match="broke off"):
        fetch(source(home), tmp_path)
    assert others(tmp_path) == ["file.partial"]
    assert not (tmp_path / "sub/file").exists()
    assert fetch(source(home), tmp_path) is True
    assert home.ranges[-1] == f"bytes={1000 * ATTEMPTS}-"
    assert (tmp_path / "sub/file").read_bytes() == CONTENT


def test_a_server_without_ranges_starts_again(home: Home, tmp_path: Path) -> None:
    home.ignores_ranges = True
    home.breaks = [100_000]
    assert fetch(source(home), tmp_path) is True
    assert (tmp_path / "sub/file").read_bytes() == CONTENT


def test_corrupt_content_is_refused_and_not_kept(home: Home, tmp_path: Path) -> None:
    home.content = CONTENT[:-1] + b"x"
    with pytest.raises(DataFileError, match="another content") as error:
        fetch(source(home), tmp_path)
    assert "\n" not in str(error.value)
    assert others(tmp_path) == []
    assert not (tmp_path / "sub/file").exists()
    home.content = CONTENT
    assert fetch(source(home), tmp_path) is True


def test_a_corrupt_beginning_from_before_is_found_out(home: Home, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file.partial").write_bytes(b"x" * 1000)
    with pytest.raises(DataFileError, match="another content"):
        fetch(source(home), tmp_path)
    assert fetch(source(home), tmp_path) is True


@pytest.mark.parametrize("size", [1000, len(CONTENT) + 1000])
def test_a_home_with_a_file_of_another_size_is_refused(home: Home, tmp_path: Path, size: int) -> None:
    home.content = (CONTENT * 2)[:size]
    with pytest.raises((FetchError, DataFileError)):
        fetch(source(home), tmp_path)
    assert not (tmp_path / "sub/file").exists()


def test_a_damaged_file_is_replaced(home: Home, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/file").write_bytes(b"damaged")
    assert state(source(home), tmp_path) == "differs"
    assert state(source(home, packing="xz"), tmp_path) == "differs"
    assert fetch(source(home), tmp_path) is True
    assert state(source(home), tmp_path) == "present"


@pytest.mark.parametrize("status", [404, 503])
def test_an_error_of_the_server_is_one_line(home: Home, tmp_path: Path, status: int) -> None:
    home.status = status
    with pytest.raises(FetchError, match=f"status {status}") as error:
        fetch(source(home), tmp_path)
    assert "\n" not in str(error.value)
    assert len(home.ranges) == (1 if status == 404 else ATTEMPTS)


def test_an_unreachable_home_is_one_line(home: Home, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="Connection refused") as error:
        fetch(replace(source(home), url="http://127.0.0.1:9/file"), tmp_path)
    assert "\n" not in str(error.value)


def test_a_file_without_a_home_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=f"put it at {tmp_path}/a/b .made by hand"):
        fetch(Source("x", "a/b", 1, "0" * 64, note="made by hand"), tmp_path)


def test_a_place_that_cannot_be_written_is_one_line(home: Home, tmp_path: Path) -> None:
    (tmp_path / "sub").write_text("a file where the folder should be")
    with pytest.raises(DataFileError, match=r"can't be written .*AGENTMEM_DATA") as error:
        fetch(source(home), tmp_path)
    assert "\n" not in str(error.value)


def test_fetchers_at_the_same_time_download_once(home: Home, tmp_path: Path) -> None:
    home.gate = threading.Event()
    wanted = source(home)
    code = (
        "import sys; from pathlib import Path; from agentmem.app.fetch import fetch;"
        "from envs.sources import Source;"
        f"print('ready', flush=True); print(fetch({wanted!r}, Path(sys.argv[1])))"
    )
    fetchers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for fetcher in fetchers:
        assert fetcher.stdout is not None
        assert fetcher.stdout.readline() == "ready\n"
    home.gate.set()
    results = sorted(fetcher.communicate(timeout=60)[0].strip() for fetcher in fetchers)
    assert results == ["False", "False", "True"]
    assert home.ranges == [None]
    assert (tmp_path / "sub/file").read_bytes() == CONTENT


# --- the manifest and the commands ---


def test_the_manifest_is_that_of_the_data_that_the_tests_use() -> None:
    assert {one.path: state(one, data_dir()) for one in SOURCES} == {one.path: "present" for one in SOURCES}
    assert {one.env for one in SOURCES} - {"alfworld", "webshop"} <= set(registry.ENVIRONMENTS)
    for one in SOURCES:
        assert one.url or one.note
    assert sources("all") == list(SOURCES)


def agentmem(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentmem", *arguments],
        capture_output=True, text=True, timeout=120, env={**os.environ, **variables},
    )  # fmt: skip


def test_status_tells_of_every_file(tmp_path: Path) -> None:
    here = agentmem("data", "status").stdout
    assert here.count("  present") == len(SOURCES)
    empty = agentmem("data", "status", AGENTMEM_DATA=str(tmp_path)).stdout
    assert empty.count("  missing") == len(SOURCES)
    assert "agentmem data fetch sokoban" in empty


def test_fetch_of_what_is_there_needs_no_network_and_no_rights() -> None:
    done = agentmem("data", "fetch", "sokoban")
    assert done.returncode == 0
    assert done.stdout.count("already there") == len(sources("sokoban"))
    assert agentmem("data", "fetch", "minesweeper").stdout == "minesweeper needs no data\n"
    unknown = agentmem("data", "fetch", "chess")
    assert unknown.returncode != 0
    assert unknown.stderr.startswith("error: unknown environment 'chess'")


def test_fetch_tells_each_missing_file_and_fails(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    done = agentmem("data", "fetch", "lab-db", AGENTMEM_DATA=str(tmp_path), https_proxy=nowhere)
    assert done.returncode == 1
    assert "entry_dict.json can't be fetched" in done.stderr
    assert f"put it at {tmp_path}/lab/db_ids_engine_independent.json" in done.stderr
    assert "Traceback" not in done.stderr
