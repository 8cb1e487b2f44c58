"""`agentmem buffer inspect|tail|export|dead RUN`: what a person sees, of a live run and of one that ended."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.app.reporting.rundir import RunDir
from agentmem.failures import AgentMemError, Failure, FailureKind
from agentmem.memory.tips import Tip, encode_key
from agentmem.replay import EmbeddedServer, ReplayBuffer
from tests.replay.makers import make_group, played

DATA = Failure(kind=FailureKind.DATA, what="no such level", where="sokoban")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path / "runs"))
    return RunDir.create("lamer-minesweeper", tmp_path / "runs")


@pytest.fixture
def live(run):
    """The server of a run that is going on, with something of everything in it."""
    with EmbeddedServer(run.replay_dir) as server:
        with ReplayBuffer(server.url, run.name, replay_groups=2) as buffer:
            buffer.submit(make_group("a", 2) + make_group("b", 1) + make_group("c", 1) + make_group("d", 1))
            claims = buffer.claim("w", 4)
            buffer.commit(played(claims[:3], version=3))
            buffer.fail(claims[3:], DATA, retry=False)
            buffer.finish_groups([g.id for g in buffer.take_groups(1)], "trained")
            buffer.claim("w2", 1)
            tip = Tip(
                text="Look.", action="up", score=1.0, step=0, source="a-0:0", key=encode_key([1.0, 0.0])
            )
            buffer.add_tips("train", "sokoban", [tip], "a-0:0")
        yield server


def say(*words: str, **env: str) -> str:
    result = CliRunner(env=env).invoke(app, ["buffer", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def state(data: Path) -> dict[str, bytes]:
    return {str(p.relative_to(data)): p.read_bytes() for p in sorted(data.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("which", ["last", "name", "id", "path"])
def test_inspect_shows_the_identity_groups_bytes_and_drops_of_a_live_run(run, live, which):
    words = {"last": "last", "name": run.name, "id": run.name[-6:], "path": str(run.path)}
    text = say("inspect", words[which])
    assert "submitted 5 = queued 0 + running 1 + buffered 1 + trained 2" in text
    assert "the identity holds" in text
    assert re.search(r"drops +failed_data 1", text)
    assert re.search(r"leases +w2 1", text)
    assert re.search(r"groups +open 1, ready 1, taken 0, held 0", text)
    assert re.search(r"bytes +\d", text)
    assert re.search(r"tips +train: 1 of 1 tasks, \d+ B \(added 1, dropped 0, duplicates 0\)", text)
    password = re.search(r":([^:@]+)@", live.url)[1]
    assert password not in text


def test_inspect_as_json(run, live):
    seen = json.loads(say("inspect", "last", "--json"))
    assert seen["identity_holds"]
    assert seen["counters"]["trained"] == 2
    assert (seen["tips"]["train"]["tips"], seen["counters"]["tips"]) == (1, 1)


def test_tail_ends_with_the_newest_trial(run, live):
    lines = say("tail", "last").splitlines()
    assert len(lines) == 3
    assert {"a-0", "a-1", "b-0"} == {line.split()[2] for line in lines}
    assert "not solved  episodes 1 (rewards 0)  tokens 2  version 3" in lines[-1]
    assert len(say("tail", "last", "-n", "1").splitlines()) == 1


def test_export_writes_one_readable_trial_a_line(run, live, tmp_path):
    lines = say("export", "last").splitlines()
    assert len(lines) == 3
    rows = {row["ticket"]: row for row in map(json.loads, lines)}
    assert (rows["a-0"]["place"], rows["b-0"]["place"]) == ("replay", "ready")
    assert rows["b-0"]["trial"]["episodes"][0]["turns"][0]["response"] == "up"
    out = tmp_path / "trials.jsonl"
    assert say("export", "last", "--out", str(out)) == f"3 trials written to {out}\n"
    assert out.read_text().splitlines() == lines
    with pytest.raises(AgentMemError, match="--out /nowhere/x: can't write there: No such file"):
        say("export", "last", "--out", "/nowhere/x")


def test_dead_shows_the_reasons(run, live):
    (line,) = say("dead", "last").splitlines()
    assert "c-0  group c  attempts 0  data in sokoban: no such level" in line
    assert json.loads(say("dead", "last", "--json"))["what"] == "no such level"


def test_looking_changes_nothing_in_a_live_buffer(run, live):
    with ReplayBuffer(live.url, run.name, only_look=True) as buffer:
        client = buffer.server.client
        before = {key: client.dump(key) for key in client.keys("*")}
        for command in ("inspect", "tail", "export", "dead"):
            say(command, "last")
        assert {key: client.dump(key) for key in client.keys("*")} == before


def test_a_run_that_has_ended_is_looked_at_without_touching_its_data(run, live):
    texts = {command: say(command, "last") for command in ("tail", "export", "dead")}
    live.stop()
    before = state(run.replay_dir)
    assert "the identity holds" in say("inspect", "last")
    assert texts == {command: say(command, "last") for command in texts}
    assert state(run.replay_dir) == before


def test_a_damaged_trial_is_shown_as_such_and_left_alone(run, live):
    with ReplayBuffer(live.url, run.name) as buffer:
        buffer.server.client.set(buffer.keys.payload("b-0", 1)[0], b"\xc1\xc1")
        assert "damaged" in say("tail", "last")
        rows = [json.loads(line) for line in say("export", "last").splitlines()]
        assert [r["ticket"] for r in rows if "error" in r] == ["b-0"]
        assert buffer.counters().drops.get("corrupt") is None


def test_the_record_of_the_url_is_its_owners_alone(run, live):
    record = run.replay_dir / "server.json"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert json.loads(record.read_text())["url"] == live.url


def test_the_commands_say_in_one_line_what_is_wrong(run, tmp_path):
    def problem(*words: str, **env: str) -> str:
        with pytest.raises(AgentMemError) as caught:
            say(*words, **env)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "run 'nope' not found" in problem("inspect", "nope")
    assert f"run {run.name} isn't running and left no buffer in" in problem("inspect", "last")
    with EmbeddedServer() as other:
        assert f"holds no buffer of run {run.name}" in problem("inspect", "last", "--url", other.url)
        assert ReplayBuffer(other.url, "x").server.client.keys(f"*{run.name}*") == []
    run.config_path.write_text("replay: {url: 'redis://***@127.0.0.1:9/0'}\n")
    assert "whose password isn't stored: set AGENTMEM_REDIS_PASSWORD" in problem("inspect", "last")
    refused = problem("inspect", "last", AGENTMEM_REDIS_PASSWORD="s3cret")
    assert "redis://***@127.0.0.1:9/0 can't be reached" in refused
    assert "s3cret" not in refused
    run.config_path.write_text("replay: [")
    assert "config.yaml can't be read" in problem("dead", "last")


def test_a_run_on_a_server_of_somebody_else_is_found_by_its_configuration(run):
    with EmbeddedServer(tcp_host="127.0.0.1") as server:
        with ReplayBuffer(server.tcp_url, run.name) as buffer:
            buffer.submit(make_group("a"))
        shown = re.sub(r"(://)[^@/]*@", r"\1***@", server.tcp_url)
        run.config_path.write_text(f"replay: {{url: '{shown}', byte_budget_mib: 7}}\n")
        password = re.search(r":([^:@]+)@", server.tcp_url)[1]
        text = say("inspect", "last", AGENTMEM_REDIS_PASSWORD=password)
    assert "submitted 2 = queued 2" in text
    assert "budget 7.0 MiB" in text


def test_an_error_ends_the_program_with_one_line(run):
    done = subprocess.run(
        [sys.executable, "-c", "from agentmem.app.cli import main; main()", "buffer", "dead", "last"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ},
    )
    assert done.returncode != 0
    assert done.stderr.startswith("error: run ")
    assert len(done.stderr.splitlines()) == 1
