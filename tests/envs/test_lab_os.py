"""LifelongAgentBench's Linux tasks: gold replay in real boxes, and what hostile scripts can't do.

The boxes' root directory is made once for all test runs of a machine, in the cache directory of its user.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from envs import registry
from envs.base import EpisodeRecord, Step, TextEnv
from envs.lab.shell import Options, root, style
from envs.lab.shell import box as box_module
from envs.lab.shell.box import Box
from envs.lab.tasks import entries
from envs.options import EnvSetupError
from tests.envs import contract

TASK = "0"


@pytest.fixture(scope="module")
def root_dir() -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("AGENTMEM_CACHE")
        return root.root_directory("")


@pytest.fixture
def options(root_dir: Path) -> dict[str, Any]:
    return {"root": str(root_dir), "command_seconds": 10, "max_rounds": 20}


@pytest.fixture
def env(options: dict[str, Any]) -> Iterator[TextEnv]:
    with contextlib.closing(registry.make("lab-os", options)) as made:
        yield made


@pytest.fixture
def box(root_dir: Path) -> Iterator[Box]:
    with contextlib.closing(Box(root_dir, 64)) as made:
        yield made


def gold(instance: str) -> list[str]:
    entry = entries("lab-os", "lab/os_entry_dict.json.xz")[instance]
    return [entry["evaluation_info"]["ground_truth_command_item"]["script"], "finish"]


def validated() -> list[Any]:
    every = [*registry.instances("lab-os", {}, "train"), *registry.instances("lab-os", {}, "eval")]
    return sorted(every, key=int)


def misbehaving(env: TextEnv, instances: list[Any]) -> list[tuple[Any, bool, bool]]:
    """Those that pass before the gold script, or fail after it."""
    wrong = []
    for instance in instances:
        env.reset(options={"instance": instance})
        before = env.step("finish")[4]["success"]
        env.restart()
        after = contract.played(env, gold(instance))[-1][4]
        if before or not after:
            wrong.append((instance, before, after))
    return wrong


# --- gold replay ---


def test_gold_scripts_turn_failure_into_success(env: TextEnv) -> None:
    quick = [one for one in validated() if "sleep" not in gold(one)[0]][::23]
    assert len(quick) >= 20
    assert misbehaving(env, quick) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_validated_tasks_fail_before_and_pass_after_their_gold_script(options: dict[str, Any]) -> None:
    ids = validated()
    assert len(ids) == 493
    with contextlib.closing(registry.make("lab-os", {**options, "command_seconds": 60})) as env:
        wrong = misbehaving(env, ids)
        assert not any(before for _, before, _ in wrong)
        assert len(wrong) <= 5
        # Some scripts of the benchmark race with themselves (a job in the background sleeps for 3 s, and so
        # does the script that looks for its file) and may lose on a busy machine: those are tried again.
        for _ in range(3):
            wrong = misbehaving(env, [instance for instance, _, _ in wrong])
        assert wrong == []


# --- the contract ---


def test_restart_gives_the_identical_start(env: TextEnv) -> None:
    assert contract.check_restart(env, TASK, gold(TASK))[-1][4] is True


def test_hostile_actions_leave_the_environment_usable(env: TextEnv) -> None:
    contract.check_hostile(env, TASK, gold(TASK))
    assert not Path("/tmp/agentmem-was-here").exists()


def test_two_processes_see_the_same(options: dict[str, Any]) -> None:
    contract.check_determinism("lab-os", options, TASK, ["ls /var/log/app", *gold(TASK)])


def test_close_ends_every_process(options: dict[str, Any]) -> None:
    contract.check_close(lambda: registry.make("lab-os", options), TASK, ["sleep 1000 & echo started"])


@pytest.mark.slow
def test_two_hundred_episodes_leave_nothing_behind(options: dict[str, Any]) -> None:
    def play(env: TextEnv, index: int) -> None:
        env.reset(options={"instance": TASK})
        env.step("sleep 1000 & echo x > /tmp/x")

    with contextlib.closing(registry.make("lab-os", options)) as env:
        contract.check_many_episodes(env, play)


def test_the_last_round_is_followed_by_the_check(options: dict[str, Any]) -> None:
    with contextlib.closing(registry.make("lab-os", {**options, "max_rounds": 2})) as env:
        env.reset(options={"instance": TASK})
        trace = contract.played(env, ["ls", gold(TASK)[0]])
        assert [(over, won) for _, _, over, _, won, _ in trace] == [(False, False), (True, True)]
        assert trace[-1][1] == 1.0
        assert env.step("ls")[4]["invalid"] is True


def test_status_output_and_processes_of_a_script_are_seen(env: TextEnv) -> None:
    env.reset(options={"instance": TASK})
    assert env.step("echo out; echo err >&2; exit 3")[0] == "Exit status 3.\nout\nerr"
    assert env.step("cd /tmp; x=1; echo a > f; (while :; do echo noise; sleep 0.1; done) & echo on")[
        0
    ].startswith("Exit status 0.\non")
    assert env.step("pwd; echo [$x]; cat /tmp/f; pgrep -c sleep")[0] == "Exit status 0.\n/\n[]\na\n1"
    long = env.step("seq 100000")[0]
    assert len(long) < 2100
    assert "more characters are not shown" in long


@pytest.mark.parametrize("instance", [-1, "500", "no such task", None])
def test_an_instance_that_does_not_exist_is_named(instance: Any) -> None:
    env = registry.make("lab-os", {})
    with pytest.raises(EnvSetupError, match=str(instance)):
        env.reset(options={"instance": instance})


# --- hostile scripts ---


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf --no-preserve-root /",
        "kill -9 1; kill -9 -1",
        "kill -STOP 1; kill -SEGV 1; kill -INT 1; kill -TERM 1",
        ":(){ :|:& };:",
        "while :; do sleep 1000 & done",
        "for i in 1 2 3 4; do python3 -c 'x = bytearray(200 << 20); import time; time.sleep(9)' & done; wait",
        "yes",
        "dd if=/dev/zero of=/big bs=1M",
        "cat /dev/zero | tr '\\0' x",
        "exec >&- 2>&-; sleep 1000",
        "setsid sleep 1000 & setsid yes > /dev/null & disown -a",
        "sleep 1000",
    ],
)  # fmt: skip
def test_a_box_survives_or_the_next_one_does(script: str, options: dict[str, Any], root_dir: Path) -> None:
    before = sorted(os.listdir(root_dir))
    with contextlib.closing(registry.make("lab-os", {**options, "command_seconds": 2})) as env:
        env.reset(options={"instance": TASK})
        observation, reward, over, cut, info = env.step(script)
        assert (reward, over, cut, info["success"]) == (0.0, False, False, False)
        assert len(observation) < 3000
        env.step("echo still here")  # process 1 answers, whatever is left of the rest
        env.restart()
        assert contract.played(env, gold(TASK))[-1][4] is True
    assert sorted(os.listdir(root_dir)) == before


def test_what_stopped_a_script_is_told(box: Box) -> None:
    assert box.run("sleep 1000", 0.3).stopped == "time"
    # Not `wait`: the bomb's first two processes end at once, so the script could before the crowd is there.
    assert box.run(":(){ :|:& };:; sleep 1000", 60).stopped == "processes"
    eater = 'python3 -c "x = bytearray(400 << 20); import time; time.sleep(60)" &'
    assert box.run(f"{eater} {eater} wait", 20).stopped == "memory"
    assert box.run("pgrep -c . ; true", 5).stopped is None
    assert "No space left" in box.run("dd if=/dev/zero of=/big bs=1M", 20).output


@pytest.mark.parametrize(
    ("attempt", "why"),
    [
        ("ls /proc/1/root/", "Permission denied"),
        ("chroot /proc/1/root true", "Permission denied"),
        ("cat /proc/1/environ", "Permission denied"),
        ("ls -l /proc/1/fd/0", "Permission denied"),
        ("echo x > /proc/1/mem", "Permission denied"),
        ("echo x > /proc/sys/kernel/core_pattern", "Read-only"),
        ("mount -o remount,rw /proc/sys", "permission denied"),
        ("umount /proc/sys", "must be superuser"),
        ("mount -t tmpfs none /mnt", "permission denied"),
        ("mknod /disk b 254 0", "Operation not permitted"),
        ("mknod /dev/mem c 1 1", "Operation not permitted"),
        ("unshare -m true", "Operation not permitted"),
        ("nsenter -t 1 -m true", "Permission denied"),
        ("hostname mine", "must be root"),
        ("dmesg", "Operation not permitted"),
        ("exec 3<>/dev/tcp/127.0.0.1/9", "Connection refused"),
        ("exec 3<>/dev/tcp/192.0.2.1/80", "Network is unreachable"),
    ],
)
def test_nothing_leads_out_of_a_box(box: Box, attempt: str, why: str) -> None:
    done = box.run(attempt, 10)
    assert done.code != 0
    assert why in done.output


def test_what_a_script_writes_stays_in_its_box(box: Box, root_dir: Path, tmp_path: Path) -> None:
    mark = f"agentmem-{os.getpid()}"
    host = sorted(os.listdir("/"))
    script = (
        f"mkdir -p {tmp_path} && touch {tmp_path}/x /{mark} /etc/{mark} /usr/bin/{mark} && useradd -m mallory"
    )
    assert box.run(script, 10).code == 0
    assert list(tmp_path.iterdir()) == []
    assert sorted(os.listdir("/")) == host
    for place in ("", "etc", "usr/bin"):
        assert not (root_dir / place / mark).exists()
        assert not (Path("/") / place / mark).exists()
    assert "mallory" not in Path("/etc/passwd").read_text() + (root_dir / "etc/passwd").read_text()
    assert (
        box.run("find / -xdev -name 'test_lab_os*' | wc -l; hostname; ls /home", 20).output
        == "0\nbox\nmallory\n"
    )


_OWNER = """
import sys, time
from pathlib import Path
from envs.lab.shell.box import Box
box = Box(Path(sys.argv[1]), 64)
box.run("setsid sleep 98765 > /dev/null 2>&1 & setsid bash -c 'while :; do :; done' & echo on", 10)
print("ready", flush=True)
box.run("sleep 60", 60)
"""


def mounts() -> list[str]:
    return Path("/proc/self/mounts").read_text().splitlines()


def test_a_killed_owner_leaves_neither_processes_nor_mounts(root_dir: Path) -> None:
    before = mounts()
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(root_dir)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert owner.stdout is not None
    while owner.stdout.readline() != "ready\n":
        assert owner.poll() is None
    end = time.monotonic() + 20
    inside: list[psutil.Process] = []
    while not any("98765" in process.cmdline() for process in inside):  # forked, and soon begun
        assert time.monotonic() < end
        inside = psutil.Process(owner.pid).children(recursive=True)
    assert mounts() == before  # the host never sees a box's mounts
    spaces = {os.readlink(f"/proc/{process.pid}/ns/mnt") for process in inside[1:]}
    assert len(spaces) == 1
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate(timeout=10)
    _, alive = psutil.wait_procs(inside, timeout=20)
    assert alive == []
    assert mounts() == before
    assert not spaces & set(namespaces())  # nobody holds it, so the kernel has removed it and its mounts


def namespaces() -> Iterator[str]:
    for pid in psutil.pids():
        with contextlib.suppress(OSError):
            yield os.readlink(f"/proc/{pid}/ns/mnt")


# --- refusals ---


def test_without_root_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, root_dir: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    env = registry.make("lab-os", {"root": str(root_dir)})
    with pytest.raises(EnvSetupError, match="need root") as error:
        env.reset(options={"instance": TASK})
    assert "\n" not in str(error.value)
    assert any("need root" in line for line in registry.check("lab-os"))


def test_without_the_tools_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    lines = "\n".join(registry.check("lab-os"))
    assert "apt-get install util-linux" in lines
    assert "apt-get install debootstrap" in lines
    assert box_module.lacking() == [lines.splitlines()[0]]
    with pytest.raises(EnvSetupError, match="apt-get install debootstrap"):
        root.root_directory("")


def test_a_root_directory_without_a_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EnvSetupError, match="root=.*with bash"):
        root.root_directory(str(tmp_path))


def test_a_mirror_that_cannot_be_reached_is_one_line_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTMEM_CACHE", str(tmp_path))
    monkeypatch.setenv(root.MIRROR, "http://127.0.0.1:9/debian")
    with pytest.raises(EnvSetupError, match=root.MIRROR) as error:
        root.root_directory("")
    assert "\n" not in str(error.value)
    assert not [
        path for path in (tmp_path / "made").iterdir() if path.name.startswith(root.NAME) and not path.suffix
    ]


# --- text ---


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("So.\n<action>\nls /\n</action>", "ls /"),
        ("<action>```bash\nls /\npwd\n```</action>", "ls /\npwd"),
        ("<action>finish</action>", "finish"),
        ("Thought.\nAct: bash\n```bash\nls -l\n```", "ls -l"),
        ("All done.\nAct: finish", "finish"),
    ],
)
def test_our_form_and_the_benchmarks_own_are_read(response: str, action: str) -> None:
    parsed = style(Options()).parse_action(response)
    assert (parsed.text, parsed.invalid) == (action, False)


@pytest.mark.parametrize("response", ["", "ls", "<action></action>", "Act: bash", "finish"])
def test_an_answer_without_an_action_is_invalid(response: str) -> None:
    assert style(Options()).parse_action(response).invalid is True


def test_the_account_tells_scripts_and_what_they_printed() -> None:
    steps = (Step("ready", "r", ("ls /",), 0.0), Step("Exit status 0.\nbin", "?", (), 0.0, invalid=True))
    account = style(Options()).summarise(EpisodeRecord(0, steps, "the end", False, "failure"))
    for part in ("ls /", "Exit status 0.\nbin", "nothing that could be read", "the end"):
        assert part in account
