"""What `envs list` and `envs check` say."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from envs import registry
from envs.selftest import overview, selftest
from envs.sokoban.env import Sokoban


def test_the_overview_has_a_line_for_each_environment_and_for_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = replace(registry.spec("sokoban"), name="rooms", requires=("no_such_package",), extra="rooms")
    monkeypatch.setitem(registry.ENVIRONMENTS, "rooms", entry)
    lines = overview()
    at = next(index for index, line in enumerate(lines) if line.startswith("rooms "))
    assert "missing" in lines[at]
    assert 'pip install "agentmem[rooms]"' in lines[at + 1]
    column = lines[at].index("missing")
    for name in registry.ENVIRONMENTS:
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert line[column:].startswith(("ready", "missing"))


@pytest.mark.parametrize("name", ["minesweeper", "sokoban", "lab-db"])
def test_a_sound_environment_passes(name: str) -> None:
    findings = selftest(name, {})
    assert len(findings) >= 5
    assert all(finding.good for finding in findings)


def test_an_environment_that_forgets_its_start_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(1000))
    real = Sokoban.restart

    def forgetful(self: Sokoban) -> tuple[str, dict[str, Any]]:
        seen, info = real(self)
        return f"{seen} {next(count)}", info

    monkeypatch.setattr(Sokoban, "restart", forgetful)
    assert [finding.what for finding in selftest("sokoban", {}) if not finding.good] == [
        "restart shows the identical start",
        "reset shows the identical start",
    ]


def test_the_command_reports_and_tells_by_its_exit_status() -> None:
    command = [sys.executable, "-m", "agentmem", "envs", "check"]
    done = subprocess.run([*command, "lab-db"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "lab-db: ready"
    assert done.stdout.count("ok  ") >= 5
    broken = [*command, "sokoban", "--set", "source=boxoban", "--set", "eval_levels=unfiltered/valid"]
    done = subprocess.run(broken, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert done.stderr.startswith("error: environment sokoban needs boxoban/unfiltered_valid_000.txt.gz")
    assert done.stderr.count("\n") == 1
