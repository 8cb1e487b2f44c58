"""A replay URL may leave its password to the environment, so that no command or file holds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentmem.app.live.preflight import check_server
from agentmem.app.live.system import System
from agentmem.app.reporting.learning_log import learning_line
from agentmem.app.reporting.records import EvalRecord, UpdateRecord
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.training.resume import resumed_config
from agentmem.config import RunConfig, load_config, to_yaml
from agentmem.config.load import without_secrets
from agentmem.failures import ConfigError, ReplayError
from agentmem.replay import EmbeddedServer

VARIABLE = "AGENTMEM_REDIS_PASSWORD"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedServer]:
    monkeypatch.delenv(VARIABLE, raising=False)
    with EmbeddedServer(tcp_host="127.0.0.1") as started:
        yield started


def without(url: str) -> tuple[RunConfig, str]:
    """A configuration with the URL less its password, and that password."""
    found = re.search(r":([^:@]+)@", url)
    assert found is not None
    shown = re.sub(r"(://)[^@/]*@", r"\1***@", url)
    return load_config("lamer-minesweeper", [f"replay.url={shown}"]), found[1]


def test_a_run_takes_the_password_from_the_environment(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, password = without(server.tcp_url)
    with pytest.raises(ConfigError, match=rf"replay\.url is at .*\*\*\*@.*: set {VARIABLE}, or write it"):
        check_server(config)
    monkeypatch.setenv(VARIABLE, "wrong")
    with pytest.raises(ReplayError, match="refused the"):
        check_server(config)
    monkeypatch.setenv(VARIABLE, password)
    check_server(config)
    system = cast("Any", SimpleNamespace(config=config))
    assert System._replay_url(system) == server.tcp_url
    assert password not in to_yaml(config)


def test_a_resumed_run_needs_no_password_on_its_command_line(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path))
    config, password = without(server.tcp_url)
    RunDir.create("lamer-minesweeper", tmp_path).config_path.write_text(to_yaml(config))
    with pytest.raises(ConfigError, match=f"set {VARIABLE}, or give it again by --set"):
        resumed_config("lamer-minesweeper", "last", [])
    monkeypatch.setenv(VARIABLE, password)
    assert resumed_config("lamer-minesweeper", "last", []).replay.url == config.replay.url


def test_what_is_published_and_recorded_holds_no_password() -> None:
    config = load_config("lamer-minesweeper", ["replay.url=redis://:geheim@host:1/0"])
    assert without_secrets(config)["replay"]["url"] == "redis://***@host:1/0"
    assert "geheim" not in to_yaml(config)
    records = [
        EvalRecord(update=0, condition="with_memory", n=2, p_at_k=[0.5], low=[0.1], high=[0.9]),
        UpdateRecord(update=1, version=1, t=1.0, trials=8, p_at_k=[0.5], sampled_tokens=9),
        EvalRecord(update=1, condition="with_memory", n=2, p_at_k=[0.5], low=[0.1], high=[0.9]),
    ]
    line = learning_line(config, records, overrides=["replay.url=redis://:geheim@host:1/0"])
    assert line.overrides == ["replay.url=redis://***@host:1/0"]
