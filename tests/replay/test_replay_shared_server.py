"""Servers that are not our own: shared by runs, with users and TLS, in a cluster."""

import socket
import subprocess
import time

import pytest
import redis

from agentmem.failures import ReplayError
from agentmem.replay import Progress, ReplayBuffer, find_server
from agentmem.trajectory import Split
from tests.replay.makers import make_episode, make_group, make_ticket, played, wait_for
from tests.replay.test_replay_crashes import a_life, check_keys
from tests.replay.tls import certificate, tls_in_front_of


def free_port(most=65535):
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port <= most:
            return port


@pytest.fixture
def start_server(tmp_path):
    """Starts plain servers with the configuration lines given; None if one ends at once."""
    started = []

    def start(*lines: str, ready: str = "Ready to accept connections") -> subprocess.Popen | None:
        conf, log = tmp_path / f"conf{len(started)}", tmp_path / f"log{len(started)}"
        conf.write_text("\n".join(["bind 127.0.0.1", 'save ""', f'dir "{tmp_path}"', *lines]) + "\n")
        with log.open("wb") as out:
            process = subprocess.Popen([find_server(), conf], stdout=out, stderr=out)
        started.append(process)
        end = time.monotonic() + 20
        while ready not in log.read_text(errors="replace"):
            if process.poll() is not None:
                return None
            assert time.monotonic() < end, log.read_text(errors="replace")
            time.sleep(0.02)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def fill_every_key(buffer):
    """Bring the run into a state in which all kinds of keys are there."""
    big = "x" * 2_500_000
    buffer.submit([t for n in range(8) for t in make_group(f"g{n}", 2)])
    buffer.submit([make_ticket("board", m, 2, Split.EVAL) for m in range(2)])
    claims = buffer.claim("w", 18)
    buffer.save_progress([Progress(claim=claims[-1], episode=make_episode(0))])
    buffer.commit(played(claims[:-4], text=big))
    buffer.release(claims[-2:-1])
    buffer.set_cursor("tasks", 3)
    groups = [g.id for g in buffer.take_groups(5)]
    buffer.finish_groups(groups[:2], "trained")
    buffer.finish_groups(groups[2:3], "trained", hold=True)
    buffer.finish_groups(groups[3:4], "expired")
    buffer.take_groups(3, at_least=3, block_s=0.05)


def test_all_keys_of_a_run_are_in_one_slot_of_a_cluster(start_server):
    """A real server in cluster mode refuses any script or transaction that touches two slots."""
    port = free_port(most=55535)  # the cluster's own port is 10,000 above
    assert start_server(f"port {port}", "cluster-enabled yes", "cluster-config-file nodes.conf")
    admin = redis.Redis(port=port)
    admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: admin.cluster("INFO")["cluster_state"] == "ok", "the cluster to be up")
    with ReplayBuffer(f"redis://127.0.0.1:{port}", "r", replay_groups=2, compression=0) as buffer:
        a_life(buffer)
        fill_every_key(buffer)
        keys = admin.keys("*")
        kinds = {key.decode().removeprefix(buffer.keys.prefix).partition(":")[0] for key in keys}
        assert {"d", "g", "p", "eval", "train", "again", "entry", "n", "held", "replay", "taken"} <= kinds
        slots = {admin.execute_command("CLUSTER", "KEYSLOT", key) for key in keys}
        assert slots == {admin.execute_command("CLUSTER", "KEYSLOT", buffer.keys.prefix)}
        check_keys(buffer)


def test_two_runs_on_one_server_change_nothing_of_each_other(server):
    with ReplayBuffer(server.url, "one", replay_groups=2) as one, ReplayBuffer(server.url, "two") as two:
        fill_every_key(one)
        client = one.server.client
        before = {key: client.dump(key) for key in client.keys(one.keys.prefix + "*")}
        counters = one.counters()
        a_life(two)
        assert two.claim("w", 5) == []
        assert two.dead_letters() == []
        after = {key: client.dump(key) for key in client.keys(one.keys.prefix + "*")}
        gone_by_time = {key for key in before if key.endswith((b"starving", b"wake", b"space"))}
        assert {k: v for k, v in before.items() if k not in gone_by_time} == {
            k: v for k, v in after.items() if k not in gone_by_time
        }
        assert one.counters() == counters


def test_a_run_whose_name_is_the_beginning_of_another_is_apart(server):
    with ReplayBuffer(server.url, "pre") as one, ReplayBuffer(server.url, "pre-2") as two:
        one.submit(make_group("a"))
        assert two.counters().submitted == 0
        assert two.claim("w", 1) == []


def test_a_user_and_its_password_stand_in_the_url(start_server):
    port = free_port()
    assert start_server(f"port {port}", "user default off", "user am on >s3cret%/ ~agentmem:* &* +@all")
    with ReplayBuffer(f"redis://am:s3cret%25%2F@127.0.0.1:{port}/0", "r") as buffer:
        a_life(buffer)  # also with rights on keys `agentmem:*` alone
        assert buffer.counters().identity_holds
    with pytest.raises(ReplayError, match="refused the user or password") as caught:
        ReplayBuffer(f"redis://am:wr0ng@127.0.0.1:{port}/0", "r", deadline_s=5)
    assert "wr0ng" not in str(caught.value)


def test_a_rediss_url_is_tls(start_server, tmp_path):
    key, cert = certificate(tmp_path)
    port = free_port()
    assert start_server(f"port {port}", "requirepass pw")
    with tls_in_front_of(port, key, cert) as secure:
        url = f"rediss://:pw@localhost:{secure}/0"
        with ReplayBuffer(f"{url}?ssl_ca_certs={cert}", "r", compression=0) as buffer:
            a_life(buffer)
            fill_every_key(buffer)  # payloads of megabytes, both ways
            (group,) = buffer.take_groups(1)
            assert len(group.trials[0].episodes[0].turns[0].response) == 2_500_000
            check_keys(buffer)
        with pytest.raises(ReplayError, match="can't be reached.*(?i:certificate)") as caught:
            ReplayBuffer(url, "r", deadline_s=1)
    assert "pw@" not in str(caught.value)
    assert "\n" not in str(caught.value)
