"""The server: found, started, refused, killed, restarted, never left over."""

import os
import re
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentmem.failures import ConfigError, ReplayError
from agentmem.replay import EmbeddedServer, Progress, ReplayBuffer, find_server
from tests.replay.makers import ids, make_episode, make_group, played, wait_for


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_importing_agentmem_needs_no_redis():
    code = (
        "import sys; sys.modules['redis'] = None; import agentmem, agentmem.replay\n"
        "try: agentmem.replay.ReplayBuffer('redis://h', 'r')\n"
        "except Exception as e: print(type(e).__name__, e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("ReplayError the package redis isn't installed"), done.stderr


def test_the_chosen_server_binary_comes_first(monkeypatch, tmp_path):
    usual = find_server()
    assert os.access(usual, os.X_OK)
    link = tmp_path / "mine"
    link.symlink_to(usual)
    monkeypatch.setenv("AGENTMEM_REDIS_SERVER", str(link))
    assert find_server() == link
    monkeypatch.setenv("AGENTMEM_REDIS_SERVER", "/nowhere/redis-server")
    with pytest.raises(ReplayError, match=r"no Redis or Valkey server >= 6.2 .*/nowhere/redis-server"):
        find_server()


def test_a_server_on_the_path_that_is_too_old_is_passed_over(monkeypatch, tmp_path):
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=5.0.14 sha=0'\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert find_server() != old


def test_the_password_is_in_a_private_file_and_nowhere_else(server):
    password = re.search(r":([^:@]+)@", server.url)[1]
    command_line = Path(f"/proc/{server.pid}/cmdline").read_bytes().decode()
    assert password not in command_line
    config = Path(server.url.partition("@")[2]).parent / "conf"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert f"requirepass {password}" in config.read_text()
    client = ReplayBuffer(server.url, "settings").server.client
    settings = {k: v for k, v in client.config_get("*").items() if isinstance(k, str)}
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["appendonly"] == "yes"


@pytest.mark.parametrize("password", ["", ":wrong@"])
def test_a_wrong_password_is_one_clear_line(server, password):
    url = re.sub(r":[^:@]+@", password, server.url)
    with pytest.raises(ReplayError, match="refused the (user or )?password") as caught:
        ReplayBuffer(url, "r", deadline_s=5)
    assert "wrong@" not in str(caught.value)


def test_a_refused_url_is_one_clear_line_within_its_deadline():
    with pytest.raises(ReplayError, match=r"redis://\*\*\*@127.0.0.1:9/0 can't be reached") as caught:
        ReplayBuffer("redis://:secret@127.0.0.1:9/0", "r", deadline_s=0.5)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://somewhere", "nonsense"])
def test_a_url_of_another_kind_names_the_ones_allowed(url):
    with pytest.raises(ConfigError, match="must start with redis://, rediss:// or unix://"):
        ReplayBuffer(url, "r")


def test_a_server_that_may_evict_is_refused():
    with EmbeddedServer() as server:
        ReplayBuffer(server.url, "r").server.client.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(
            ReplayError, match="maxmemory-policy allkeys-lru.*set maxmemory-policy noeviction"
        ):
            ReplayBuffer(server.url, "r")


def test_a_server_without_streams_to_reclaim_is_refused(server, monkeypatch):
    from agentmem.replay import connect

    monkeypatch.setattr(connect, "MIN_VERSION", (999, 0))
    with pytest.raises(ReplayError, match=r"has version [\d.]+: 6.2 or newer is needed"):
        ReplayBuffer(server.url, "r")


def test_a_buffer_of_another_schema_version_is_refused_naming_both(buffer):
    buffer.server.client.hset(buffer.keys("meta"), "schema", 99)
    with pytest.raises(ReplayError, match="schema version 99: this program reads 1"):
        ReplayBuffer(buffer.server.url, buffer.run)


def test_a_buffer_of_another_recipe_is_refused_naming_both(open_buffer):
    open_buffer(fingerprint="lamer-minesweeper")
    open_buffer(fingerprint="lamer-minesweeper")
    with pytest.raises(ReplayError, match="made by lamer-minesweeper, not by empo2-webshop"):
        open_buffer(fingerprint="empo2-webshop")


def test_other_machines_reach_it_over_tcp_with_the_password():
    with EmbeddedServer(tcp_host="127.0.0.1") as server:
        with ReplayBuffer(server.tcp_url, "r") as buffer:
            assert buffer.submit(make_group("a")) == 2
        with pytest.raises(ReplayError, match="refused"):
            ReplayBuffer(re.sub(r":[^:@/]+@", "", server.tcp_url), "r", deadline_s=5)


def test_a_killed_server_comes_back_with_everything(tmp_path):
    server = EmbeddedServer(tmp_path / "data")
    buffer = ReplayBuffer(server.start(), "r")
    try:
        for name in "abcdef":
            buffer.submit(make_group(name))
        claims = buffer.claim("w", 6)
        buffer.commit(played(claims[:5]))
        buffer.save_progress([Progress(claim=claims[5], episode=make_episode(0))])
        buffer.finish_groups([g.id for g in buffer.take_groups(1)], "trained")
        before = buffer.counters()
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: not server.alive, "the server to die")
        server.start()
        assert buffer.counters() == before
        assert before.identity_holds
        assert before.running == 1
        buffer.forfeit("w")
        (taken,) = buffer.claim("w2", 1)
        assert len(taken.episodes) == 1
        assert [g.id for g in buffer.take_groups(9)] == ["b"]
    finally:
        server.stop()


def test_calls_wait_for_a_server_that_restarts(tmp_path):
    server = EmbeddedServer(tmp_path)
    buffer = ReplayBuffer(server.start(), "r")
    try:
        buffer.submit(make_group("a"))
        os.kill(server.pid, signal.SIGKILL)
        wait_for(lambda: not server.alive, "the server to die")
        results = []
        thread = threading.Thread(target=lambda: results.append(ids(buffer.claim("w", 2))))
        thread.start()
        server.start()
        thread.join(25)
        assert results == [["a-0", "a-1"]]
    finally:
        server.stop()


def test_a_data_directory_is_opened_again_by_the_next_process(tmp_path):
    with EmbeddedServer(tmp_path) as first:
        ReplayBuffer(first.url, "r").submit(make_group("a"))
    with EmbeddedServer(tmp_path) as second:
        assert ReplayBuffer(second.url, "r").counters().queued == 2


def test_it_ends_with_the_process_that_started_it(tmp_path):
    code = (
        "import sys, time; from agentmem.replay import EmbeddedServer\n"
        f"s = EmbeddedServer({str(tmp_path)!r}); s.start(); print(s.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.kill()
    wait_for(lambda: gone(pid), "the server to end with its parent")


def test_a_server_left_over_on_the_data_directory_is_ended_first(tmp_path):
    first, second = EmbeddedServer(tmp_path), EmbeddedServer(tmp_path)
    try:
        ReplayBuffer(first.start(), "r").submit(make_group("a"))
        pid = first.pid
        assert ReplayBuffer(second.start(), "r").counters().queued == 2
        assert gone(pid)
    finally:
        first.stop()
        second.stop()


def test_a_script_flush_on_the_server_goes_unnoticed(buffer):
    buffer.submit(make_group("a"))
    buffer.server.client.script_flush()
    assert ids(buffer.claim("w", 2)) == ["a-0", "a-1"]


def test_two_threads_that_miss_the_same_script_both_load_it_again(server):
    with ReplayBuffer(server.url, "missing-script") as buffer:
        buffer.counters()
        client = buffer.server.client
        client.script_flush()
        both, plain = threading.Barrier(2), client.execute_command

        def together(*words, **options):
            try:
                return plain(*words, **options)
            except Exception as error:
                if type(error).__name__ == "NoScriptError":
                    both.wait(20)  # neither has loaded it yet when the other misses it
                raise

        client.execute_command = together
        with ThreadPoolExecutor(2) as pool:
            found = [pool.submit(buffer.counters) for _ in range(2)]
            assert [f.result(timeout=30).submitted for f in found] == [0, 0]
