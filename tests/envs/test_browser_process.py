"""One browser per process, and none left behind, however its owner ends."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from envs import registry
from envs.base import EnvLost
from envs.browser import chromium
from envs.options import EnvSetupError
from tests.envs.elsewhere import Elsewhere, python_of


@pytest.fixture
def env() -> Iterator[Elsewhere]:
    there = Elsewhere("miniwob", {"action_timeout_s": 30.0})
    there.reset(options={"instance": "click-test/1"})
    yield there
    there.process.kill()
    there.process.wait(30)


def lives(process: psutil.Process) -> bool:
    """Whether it runs; one that waits to be collected by init doesn't."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def all_gone(processes: list[psutil.Process], within_s: float = 20.0) -> bool:
    """Whether they all end in time."""
    until = time.monotonic() + within_s
    while any(map(lives, processes)) and time.monotonic() < until:
        psutil.wait_procs(processes, timeout=0.1)
    return not any(map(lives, processes))


def browsers_of(owner: psutil.Process) -> list[psutil.Process]:
    """The browser's main process, its own children left out."""
    lines = {p: p.cmdline() for p in owner.children(recursive=True)}
    pipes = [process for process, line in lines.items() if "--remote-debugging-pipe" in line]
    found = [process for process in pipes if "--type=renderer" not in lines[process]]
    assert found
    return found


def scratch_of(env: Elsewhere) -> Path:
    """The directory of the browser's temporary files."""
    (owner,) = (f.path for f in psutil.Process(env.process.pid).open_files() if f.path.endswith(".owner"))
    return Path(owner).with_suffix("")


def test_close_leaves_no_process_and_no_file(env: Elsewhere) -> None:
    started = env.below()
    mine = scratch_of(env)
    assert len(started) >= 3
    assert mine.exists()
    env.close_there()
    assert all_gone(started)
    assert not mine.exists()
    assert not mine.with_suffix(".owner").exists()
    env.close_there()
    assert env.reset(options={"instance": "click-test/1"})[1]["instruction"] == "Click the button."


@pytest.mark.parametrize("stopped", [False, True])
def test_a_killed_owner_takes_its_browser_along_even_one_that_hangs(env: Elsewhere, stopped: bool) -> None:
    started = env.below()
    if stopped:
        for browser in browsers_of(psutil.Process(env.process.pid)):
            browser.suspend()
    env.process.send_signal(signal.SIGKILL)
    env.process.wait(30)
    assert all_gone(started)


def test_a_killed_driver_takes_the_browser_along(env: Elsewhere) -> None:
    started = env.below()
    (driver,) = psutil.Process(env.process.pid).children()
    driver.kill()
    assert all_gone(started)


def test_what_a_killed_owner_left_is_removed_by_the_next(env: Elsewhere) -> None:
    left, started = scratch_of(env), env.below()
    chromium.Scratch().close()
    assert left.exists()
    env.process.kill()
    env.process.wait(30)
    assert all_gone(started)
    assert left.exists()
    chromium.Scratch().close()
    assert not left.exists()


def test_a_lost_browser_is_reported_and_replaced(env: Elsewhere) -> None:
    for browser in browsers_of(psutil.Process(env.process.pid)):
        browser.kill()
    with pytest.raises(EnvLost, match="miniwob: "):
        env.step("click('13')")
    _, info = env.reset(options={"instance": "click-test/1"})
    assert info["instruction"] == "Click the button."
    assert env.step("click('13')")[1] == 1.0


_SHARED = """
import os
from envs.registry import make

def browsers():
    mine, found = str(os.getpid()), 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = open(f"/proc/{pid}/cmdline").read()
            above = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]
            above = open(f"/proc/{above}/stat").read().rpartition(")")[2].split()[1]
        except OSError:
            continue
        found += "--remote-debugging-pipe" in line and above == mine
    return found

one, two = make("miniwob", {}), make("miniwob", {})
first, _ = one.reset(options={"instance": "click-test/1"})
two.reset(options={"instance": "enter-text/1"})
assert browsers() == 1
one.close()
assert two.restart()[1]["instruction"].startswith("Enter")
assert one.reset(options={"instance": "click-test/1"})[0] == first
two.close()
assert one.step("click('13')")[1] == 1.0
try:
    make("miniwob", {"chromium": "/bin/true"}).reset(options={"instance": "click-test/1"})
except ValueError as error:
    print(error)
one.close()
assert browsers() == 0
"""


def test_environments_of_one_process_share_its_browser() -> None:
    done = subprocess.run(
        [python_of("miniwob"), "-c", _SHARED], capture_output=True, text=True, check=True, timeout=120
    )
    assert "chromium='/bin/true': must be ''" in done.stdout


def test_a_missing_browser_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_CHROMIUM", "/no/such/browser")
    (line,) = registry.check("miniwob")
    assert "/no/such/browser" in line
    assert "install" in line
    there = Elsewhere("miniwob")
    with pytest.raises(EnvSetupError, match="no browser found"):
        there.reset(options={"instance": "click-test/1"})
    there.close()


def test_a_browser_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = tmp_path / "browser"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    assert chromium.executable(str(mine)) == mine
    monkeypatch.setenv("AGENTMEM_CHROMIUM", str(mine))
    assert chromium.executable() == mine
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("AGENTMEM_CHROMIUM")
    with pytest.raises(EnvSetupError, match="no browser found"):
        chromium.executable()
    assert len(chromium.missing()) == 2
