"""Agents killed in mid-trial, servers killed in mid-commit: nothing is lost, nothing counts twice."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentmem.failures import ReplayError
from agentmem.replay import EmbeddedServer, ReplayBuffer
from tests.replay.makers import make_group, played, wait_for

ROOT = Path(__file__).parents[2]
AGENT = """
import sys, time
from agentmem.replay import ReplayBuffer
import pytest
from tests.replay.makers import played
buffer = ReplayBuffer(sys.argv[1], sys.argv[2], lease_s=1.0)
holds = int(sys.argv[4])
if holds:
    claims = buffer.claim(sys.argv[3], holds, block_s=20)
    print(len(claims), flush=True)
    while all(buffer.renew(claims)):
        time.sleep(0.1)
while not buffer.draining():
    buffer.commit(played(buffer.claim(sys.argv[3], 8, block_s=0.2)))
"""


def start_agent(buffer: ReplayBuffer, name: str, holds: int = 0) -> subprocess.Popen:
    words = [sys.executable, "-c", AGENT, buffer.server.url, buffer.run, name, str(holds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_a_batch_completes_although_the_agent_holding_three_of_128_is_killed(open_buffer):
    learner = open_buffer(lease_s=1.0)
    tickets = [t for g in range(16) for t in make_group(f"g{g}", 8)]
    learner.submit(tickets)
    victim = start_agent(learner, "victim", holds=3)
    assert victim.stdout.readline().strip() == "3"
    agents = [start_agent(learner, f"agent{n}") for n in range(2)]
    try:
        wait_for(lambda: learner.counters().buffered == 125, "all but the victim's three", 60)
        assert learner.counters().running == 3
        victim.send_signal(signal.SIGKILL)
        groups = learner.take_groups(16, at_least=16, block_s=60)
        trained = [t.ticket for g in groups for t in g.trials]
        assert sorted(trained) == sorted(t.id for t in tickets)
        learner.finish_groups([g.id for g in groups], "trained")
        learner.announce()
        assert [agent.wait(30) for agent in agents] == [0, 0]
        counters = learner.counters()
        assert (counters.trained, counters.leases_expired) == (128, 3)
        assert counters.identity_holds
    finally:
        for process in (victim, *agents):
            process.kill()
            process.wait(10)
            process.stdout.close()


def test_a_server_killed_again_and_again_in_mid_commit_loses_and_doubles_nothing(tmp_path):
    server = EmbeddedServer(tmp_path)
    learner = ReplayBuffer(server.start(), "r", lease_s=1.0)
    tickets = [t for g in range(100) for t in make_group(f"g{g}", 4)]
    learner.submit(tickets)
    errors, stop = [], threading.Event()

    def produce(name: str) -> None:
        try:
            with ReplayBuffer(server.url, "r", lease_s=1.0) as agent:
                while not stop.is_set():
                    agent.commit(played(agent.claim(name, 3, block_s=0.1)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=produce, args=(f"w{n}",)) for n in range(2)]
    trained = []
    try:
        for thread in threads:
            thread.start()
        while len(trained) < len(tickets):
            groups = learner.take_groups(20, block_s=20)
            assert groups, (learner.counters(), errors)
            learner.finish_groups([g.id for g in groups], "trained")
            trained += [t.ticket for g in groups for t in g.trials]
            os.kill(server.pid, signal.SIGKILL)
            wait_for(lambda: not server.alive, "the server to die")
            server.start()
            assert learner.counters().identity_holds
        assert errors == []
        assert sorted(trained) == sorted(t.id for t in tickets)
        assert learner.counters().trained == len(tickets)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
        server.stop()


def test_a_server_that_hangs_is_an_error_within_the_deadline():
    with EmbeddedServer() as server:
        buffer = ReplayBuffer(server.url, "r", deadline_s=0.2, socket_timeout_s=0.5)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(ReplayError, match="can't be reached for 0.2 s"):
                buffer.counters()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert buffer.counters().submitted == 0
