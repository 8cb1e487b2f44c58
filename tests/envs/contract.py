"""What every environment promises, as checks that each environment's own tests call.

They work on a made environment and scripted actions, so they serve slow environments, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import psutil

from envs.base import Instance, TextEnv

HOSTILE = (
    "",
    " \n\t ",
    "nonsense",
    "x" * 100_000,
    "\x00\x01\x1b[31m\x7f\ud83d",
    "'; DROP TABLE users; --",
    "$(touch /tmp/agentmem-was-here); `id` && rm -rf ~",
    "</script><script>alert(1)</script>",
    "click('1'); __import__('os')._exit(1)",
    "\N{RIGHT-TO-LEFT OVERRIDE}лук\N{PILE OF POO}",
)
"""Actions that no environment may take, and that none may fall over."""

Trace = list[tuple[str, float, bool, bool, bool, bool]]
"""(observation, reward, terminated, truncated, success, invalid) of each step."""


def played(env: TextEnv, actions: Sequence[str]) -> Trace:
    """Play these actions until the episode is over."""
    trace: Trace = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        trace.append((observation, reward, terminated, truncated, info["success"], info["invalid"]))
        if terminated or truncated:
            break
    return trace


def check_restart(env: TextEnv, instance: Instance, actions: Sequence[str]) -> Trace:
    """`restart()` gives the identical first observation; the same actions then give the same everything."""
    first, info = env.reset(options={"instance": instance})
    assert info["success"] is False
    assert info["invalid"] is False
    trace = played(env, actions)
    again, later = env.restart()
    assert again == first
    assert {**later} == {**info}
    assert played(env, actions) == trace
    assert env.reset(options={"instance": instance})[0] == first
    return trace


def check_hostile(env: TextEnv, instance: Instance, actions: Sequence[str]) -> None:
    """Hostile actions are invalid or harmless, never an exception; afterwards all is as before."""
    first, _ = env.reset(options={"instance": instance})
    expected = played(env, actions)
    env.restart()
    for action in HOSTILE:
        observation, reward, terminated, truncated, info = env.step(action)
        assert isinstance(observation, str)
        assert isinstance(reward, float)
        assert info["success"] is False
        if terminated or truncated:
            env.restart()
    assert env.restart()[0] == first
    assert played(env, actions) == expected


_PLAY = """
import json, sys
from envs.registry import make
name, options, instance, actions = json.load(sys.stdin)
env = make(name, options)
seen = [env.reset(options={"instance": instance})[0]]
for action in actions:
    observation, reward, terminated, truncated, info = env.step(action)
    seen.append([observation, reward, terminated, truncated, info["success"], info["invalid"]])
    if terminated or truncated:
        break
env.close()
print(json.dumps(seen))
"""


def played_elsewhere(
    name: str,
    options: dict[str, Any],
    instance: Instance,
    actions: Sequence[str],
    python: str = sys.executable,
) -> list[Any]:
    """First observation and trace of an episode in a process of its own."""
    done = subprocess.run(
        [python, "-c", _PLAY],
        input=json.dumps([name, options, instance, list(actions)]),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    seen: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def check_determinism(
    name: str,
    options: dict[str, Any],
    instance: Instance,
    actions: Sequence[str],
    python: str = sys.executable,
) -> None:
    """Two processes see the same everything."""
    one = played_elsewhere(name, options, instance, actions, python)
    assert len(one) > 1
    assert played_elsewhere(name, options, instance, actions, python) == one


def check_close(make: Callable[[], TextEnv], instance: Instance, actions: Sequence[str]) -> None:
    """After `close()` every process that the environment started is gone; closing again is harmless."""
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    env = make()
    env.reset(options={"instance": instance})
    played(env, actions)
    started = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
    env.close()
    _, alive = psutil.wait_procs(started, timeout=10)
    assert not alive
    env.close()


def tree_rss_mib() -> float:
    """Resident memory of this process and all below it."""
    me = psutil.Process()
    total = 0
    for process in [me, *me.children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


def check_many_episodes(
    env: TextEnv,
    play: Callable[[TextEnv, int], None],
    *,
    episodes: int = 200,
    warm: int = 40,
    growth_mib: float = 40.0,
    passing: int = 0,
) -> None:
    """Memory and processes stay as they are from episode `warm` to episode `episodes`.

    `passing`: how many processes may be just coming or going when they are counted.
    """
    for index in range(warm):
        play(env, index)
    memory, processes = tree_rss_mib(), len(psutil.Process().children(recursive=True))
    for index in range(warm, episodes):
        play(env, index)
    assert len(psutil.Process().children(recursive=True)) <= processes + passing
    assert tree_rss_mib() <= memory + growth_mib
