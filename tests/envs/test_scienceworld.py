"""ScienceWorld in its real simulator: official splits and solutions, failures, processes, the contract."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from envs import registry
from envs.base import EpisodeRecord, Message, Step, View
from envs.play import play
from envs.scienceworld.env import UNKNOWN, ScienceWorld
from envs.scienceworld.java import Simulator, SimulatorDied
from envs.scienceworld.tasks import ELECTRICAL, TASKS, parsed, variations
from tests.envs.contract import (
    HOSTILE,
    check_close,
    check_determinism,
    check_hostile,
    check_many_episodes,
    check_restart,
    played,
    tree_rss_mib,
)

ACTIONS = ["go to kitchen", "open cupboard", "look around", "pick up metal pot", "wait1", "inventory"]
SOLVED_QUICKLY = ("find-animal/75", "power-component/3")
SOLVED = (
    "boil/0",
    "chemistry-mix/24",
    "chemistry-mix-paint-secondary-color/1",
    "find-non-living-thing/299",
    "find-plant/2",
    "grow-plant/5",
    "identify-life-stages-1/1",
    "inclined-plane-determine-angle/2",
    "lifespan-longest-lived/100",
    "measure-melting-point-known-substance/4",
    "mendelian-genetics-known-plant/0",
    "test-conductivity/1",
    "use-thermometer/7",
)


def made(**options: Any) -> ScienceWorld:
    env = registry.make("scienceworld", options)
    assert isinstance(env, ScienceWorld)
    return env


@pytest.fixture(scope="module")
def shared() -> Iterator[ScienceWorld]:
    """One environment for all tests that only play: starting Java takes a while."""
    env = made()
    yield env
    env.close()


@pytest.fixture
def env(shared: ScienceWorld) -> ScienceWorld:
    return shared


@contextmanager
def set_to(env: ScienceWorld, **options: Any) -> Iterator[ScienceWorld]:
    """The environment with other options, for starting another one takes seconds."""
    before = env.options
    env.options = registry.validate_options("scienceworld", options)
    yield env
    env.options = before


# --- splits ---


def test_all_tasks_and_variations_are_listed_in_the_official_splits() -> None:
    train = registry.instances("scienceworld", {}, "train")
    test = registry.instances("scienceworld", {}, "eval")
    dev = registry.instances("scienceworld", {"eval_split": "dev"}, "eval")
    assert (len(TASKS), len(train), len(dev), len(test)) == (30, 3592, 1796, 1819)
    assert len({*train, *dev, *test}) == 7207
    assert train[0] == "boil/0"
    assert test[0] == "boil/21"
    assert all(parsed(instance) for instance in (*train, *dev, *test))


def test_tasks_and_how_many_variations_are_chosen_by_options() -> None:
    def listed(split: str, **options: Any) -> list[Any]:
        return list(registry.instances("scienceworld", options, split))

    assert listed("train", tasks=["melt"], variations_per_task=2) == ["melt/0", "melt/1"]
    assert listed("eval", tasks=["melt"]) == [f"melt/{number}" for number in range(21, 30)]
    apart: dict[str, Any] = {"tasks": ["melt"], "variations_per_task": 1, "eval_variations_per_task": 2}
    assert listed("train", **apart) == ["melt/0"]
    assert listed("eval", **apart) == ["melt/21", "melt/22"]
    assert len(listed("eval", tasks=["melt"], variations_per_task=1)) == 1
    counts = Counter(instance.partition("/")[0] for instance in listed("train", variations_per_task=5))
    assert counts["identify-life-stages-2"] == 4
    assert counts["test-conductivity"] == 5


@pytest.mark.slow
def test_the_table_of_splits_is_the_simulators(env: ScienceWorld) -> None:
    env.reset(options={"instance": "boil/0"})
    assert env.simulator is not None
    assert env.simulator.task_names() == list(TASKS)
    for task in TASKS:
        splits = env.simulator.splits(task)
        assert tuple(splits) == tuple(list(variations(task, part)) for part in ("train", "dev", "test"))


@pytest.mark.parametrize("instance", ["boil/30", "boil/-1", "boil/01", "boil", "fly/0", "boil/x", "", 3])
def test_an_instance_that_does_not_exist_is_named(instance: Any) -> None:
    env = made()
    with pytest.raises(registry.EnvSetupError, match=f"no instance {instance!r}"):
        env.reset(options={"instance": instance})
    assert env.simulator is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"tasks": ["boil", "fly"]}, "tasks='fly'.*boil, "),
        ({"simplifications": ["hard"]}, r"simplifications\[0\]='hard'.*easy"),
        ({"tasks": ["test-conductivity"], "simplifications": ["noElectricalAction"]}, "test-conductivity"),
        ({"heap_mb": 10}, "heap_mb=10"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(registry.EnvSetupError, match=named):
        registry.instances("scienceworld", options, "train")


def test_an_electrical_task_without_electrical_actions_is_refused() -> None:
    env = made(simplifications=["noElectricalAction"])
    for task in ELECTRICAL:
        with pytest.raises(registry.EnvSetupError, match=task):
            env.reset(options={"instance": f"{task}/0"})


def test_missing_java_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert registry.check("scienceworld") == []
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (line,) = registry.check("scienceworld")
    assert "openjdk" in line
    with pytest.raises(registry.EnvSetupError, match="openjdk"):
        made().reset(options={"instance": "boil/0"})


def test_a_java_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'no memory today' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(registry.EnvSetupError, match="no memory today"):
        made().reset(options={"instance": "boil/0"})


def test_listing_and_styling_need_neither_the_package_nor_java() -> None:
    code = (
        "import sys; from envs import registry; registry.instances('scienceworld', {}, 'train'); "
        "registry.style('scienceworld', {}); print('py4j' in sys.modules, 'scienceworld' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False", "False"]


# --- play ---


def _solve(env: ScienceWorld, instance: str) -> None:
    """The simulator's own solution reaches 100 points, and rewards are the changes of the score."""
    task, variation = parsed(instance) or ("", 0)
    env.reset(options={"instance": instance})
    assert env.simulator is not None
    solution = env.simulator.solution(task, variation, "easy")
    _, info = env.reset(options={"instance": instance})
    before = info["points"]
    for action in solution:
        _, reward, over, truncated, info = env.step(action)
        assert reward == info["points"] - before
        assert info["score"] == info["points"] / 100
        assert over is info["success"]
        assert truncated is False
        before = info["points"]
        if over:
            break
    assert info["points"] == 100
    after = env.step("look around")
    assert after[1:4] == (0.0, True, False)
    assert after[4]["invalid"] is True
    assert after[4]["success"] is True


@pytest.mark.parametrize("instance", SOLVED_QUICKLY)
def test_the_official_solution_reaches_a_hundred_points(env: ScienceWorld, instance: str) -> None:
    _solve(env, instance)


@pytest.mark.slow
@pytest.mark.parametrize("instance", SOLVED)
def test_the_official_solutions_of_many_tasks_reach_100_points(env: ScienceWorld, instance: str) -> None:
    _solve(env, instance)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_task_starts_again_as_it_started(env: ScienceWorld, task: str) -> None:
    number = sum(TASKS[task]) - 1
    first, info = env.reset(options={"instance": f"{task}/{number}"})
    assert info["instruction"].startswith("Your task is to ")
    assert len(check_restart(env, f"{task}/{number}", ACTIONS)) >= 1
    assert env.restart() == (first, info)


def test_focusing_on_a_wrong_thing_ends_the_episode_as_a_failure(env: ScienceWorld) -> None:
    env.reset(options={"instance": "boil/0"})
    observation, reward, terminated, truncated, info = env.step("focus on agent")
    assert observation == "You focus on the agent."
    assert (reward, terminated, truncated) == (-100.0, True, False)
    assert info == {"success": False, "invalid": False, "score": 0.0, "points": -100}
    assert env.step("look around")[4]["invalid"] is True
    _, info = env.restart()
    assert info["points"] == 0


def test_the_reward_of_a_point_is_an_option(env: ScienceWorld) -> None:
    with set_to(env, reward_per_point=0.01):
        env.reset(options={"instance": "boil/0"})
        assert env.step("focus on agent")[1] == -1.0


def test_the_start_comes_back_whatever_was_played(env: ScienceWorld) -> None:
    trace = check_restart(env, "boil/3", ["teleport to kitchen", *ACTIONS])
    assert len(trace) == 7
    assert len({step[0] for step in trace}) >= 5


def test_hostile_actions_leave_it_usable(env: ScienceWorld) -> None:
    check_hostile(env, "melt/2", ["teleport to kitchen", *ACTIONS])


def test_what_is_not_understood_changes_nothing(env: ScienceWorld) -> None:
    env.reset(options={"instance": "boil/0"})
    for action in [*HOSTILE, "fly to the moon", "x" * 499]:
        observation, reward, terminated, truncated, info = env.step(action)
        assert (observation, reward, terminated, truncated) == (UNKNOWN, 0.0, False, False)
        assert info == {"success": False, "invalid": True, "score": 0.0, "points": 0}
    assert not Path("/tmp/agentmem-was-here").exists()


def test_an_ambiguous_action_is_settled_by_a_number(env: ScienceWorld) -> None:
    env.reset(options={"instance": "boil/0"})
    env.step("teleport to kitchen")
    observation, _, _, _, info = env.step("pick up orange")
    assert observation.startswith("Ambiguous request")
    assert info["invalid"] is False
    assert env.step("0")[0] == "You move the orange to the inventory."
    env.step("open door")
    observation, _, _, _, info = env.step("sing")
    assert observation.startswith("Unknown action.")
    assert info["invalid"] is True


def test_two_processes_see_the_same() -> None:
    check_determinism("scienceworld", {}, "find-animal/3", ["teleport to outside", *ACTIONS, "look around"])


@pytest.mark.slow
@pytest.mark.parametrize("instance", ["boil/5", "grow-fruit/70", "lifespan-shortest-lived/9", "melt/9"])
def test_two_processes_see_the_same_in_random_play(instance: str) -> None:
    env = made(admissible=True)
    env.reset(options={"instance": instance})
    rng = random.Random(instance)
    actions = []
    for _ in range(15):
        offered = [action for action in env.admissible_actions() or () if not action.startswith("focus")]
        actions.append(rng.choice(offered))
        env.step(actions[-1])
    env.close()
    check_determinism("scienceworld", {}, instance, actions)


def test_actions_are_listed_only_on_request(env: ScienceWorld) -> None:
    env.reset(options={"instance": "boil/0"})
    assert env.admissible_actions() is None
    with set_to(env, admissible=True):
        offered = env.admissible_actions()
        assert offered is not None
        assert list(offered) == sorted(set(offered))
        for action in ("look around", "close door to kitchen", "teleport to workshop"):
            assert action in offered
            env.restart()
            assert env.step(action)[4]["invalid"] is False
        env.step("focus on agent")
        assert env.admissible_actions() == ()


def test_simplifications_change_the_world(env: ScienceWorld) -> None:
    with set_to(env, simplifications=[]):
        observation, _ = env.reset(options={"instance": "boil/0"})
        assert "that is closed" in observation
        assert env.step("teleport to kitchen")[0] == UNKNOWN
    with set_to(env, simplifications=["openDoors"]):
        assert "that is closed" not in env.reset(options={"instance": "boil/0"})[0]
        assert env.step("teleport to kitchen")[0] == UNKNOWN
    for simplifications, teleport in (([], False), (["easy"], True)):
        style = registry.style("scienceworld", {"simplifications": simplifications})
        assert ("teleport" in text_of(style.act_prompt(View("")))) is teleport


def test_reset_without_an_instance_or_restart_before_reset_is_refused() -> None:
    env = made()
    for wrong in (env.restart, env.reset, lambda: env.step("look around")):
        with pytest.raises(registry.EnvSetupError, match="reset"):
            wrong()


def test_a_person_is_told_the_task_and_can_lose() -> None:
    answers = iter(["look around", "focus on agent"])
    said: list[str] = []
    assert not play("scienceworld", {}, "boil/0", input_fn=lambda _: next(answers), output_fn=said.append)
    assert "Your task is to boil water." in said[0]
    assert said[-1] == "Lost after 2 turns, reward -100"


# --- prompts ---


def text_of(prompt: Any) -> str:
    return "\n".join(message.content for message in prompt)


def test_prompts_extend_each_other(env: ScienceWorld) -> None:
    observation, info = env.reset(options={"instance": "boil/0"})
    assert "\n" in observation
    steps: list[Step] = []
    prompts = []
    for action in ["teleport to kitchen", "fly", "look around", "focus on agent"]:
        prompts.append(env.style.act_prompt(View(observation, tuple(steps), instruction=info["instruction"])))
        response = f"Well. <action>{action}</action>" if len(steps) != 2 else "hm"
        parsed_action = env.style.parse_action(response)
        after, reward, _, _, told = env.step(parsed_action.text)
        steps.append(Step(observation, response, parsed_action.actions, reward, told["invalid"]))
        observation = after
    view = View(observation, tuple(steps), instruction=info["instruction"])
    record = EpisodeRecord(0, tuple(steps), observation, False, "failure")
    prompts.append(env.style.reflect_prompt(view, record))
    for before, step, after_prompt in zip(prompts, steps, prompts[1:], strict=False):
        assert after_prompt[: len(before)] == before
        assert after_prompt[len(before)] == Message("assistant", step.response)
        assert len(after_prompt) == len(before) + 2
    assert text_of(prompts[-1]).count(info["instruction"]) == 1
    account = env.summarise(record)
    assert "1. teleport to kitchen\n2. fly (not understood)\n3. no action (not understood)" in account
    assert "4. focus on agent (score fell)" in account
    assert observation in account


def test_possible_actions_and_long_texts_are_shown_up_to_their_limits() -> None:
    style = registry.style("scienceworld", {"observation_limit": 100, "admissible_limit": 100})
    prompt = text_of(style.act_prompt(View("x" * 250, admissible=("open the door",) * 1000)))
    assert "x" * 100 + " [… 150 more characters left out]" in prompt
    assert "x" * 101 not in prompt
    assert "[… 994 more left out]" in prompt


@pytest.mark.parametrize(
    ("response", "actions"),
    [
        ("<action>Open door to Kitchen.</action>", ("open door to kitchen",)),
        ("so <action> 0 </action>", ("0",)),
        ("<think><action>wait</action></think><action>task</action>", ("task",)),
        ("open door", ()),
        ("<action> </action>", ()),
        ("<action>" + "x" * 501 + "</action>", ()),
    ],
)
def test_the_action_is_the_last_action_tag(response: str, actions: tuple[str, ...]) -> None:
    found = registry.style("scienceworld", {}).parse_action(response)
    assert found.actions == actions
    assert found.invalid is (not actions)


# --- processes and memory ---


def test_close_leaves_no_process() -> None:
    check_close(made, "boil/0", ACTIONS)


def test_an_environment_that_is_forgotten_leaves_no_process() -> None:
    env = made()
    env.reset(options={"instance": "boil/0"})
    assert env.simulator is not None
    process = psutil.Process(env.simulator.process.pid)
    assert "-Xmx512m" in process.cmdline()
    del env
    assert psutil.wait_procs([process], timeout=20)[1] == []


_OWNER = """
import os, sys
from envs.registry import make
env = make("scienceworld", {})
env.reset(options={"instance": "mendelian-genetics-known-plant/0"})
print(os.getpid(), env.simulator.process.pid, flush=True)
if sys.argv[1] == "busy":
    while True:
        env.simulator.solution("mendelian-genetics-known-plant", 0, "easy")
sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_java_dies_with_its_owner_even_when_that_is_killed(state: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pid, java = map(int, owner.stdout.readline().split())
    assert pid == owner.pid
    process = psutil.Process(java)
    assert "java" in process.name()
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait(timeout=20)
    assert psutil.wait_procs([process], timeout=20)[1] == []
    owner.stdout.close()
    assert owner.stdin is not None
    owner.stdin.close()


def test_a_java_process_that_dies_is_reported_and_replaced_by_the_next_reset() -> None:
    env = made()
    first, _ = env.reset(options={"instance": "boil/0"})
    assert env.simulator is not None
    dead = env.simulator.process
    dead.kill()
    with pytest.raises(SimulatorDied, match="Java process ended"):
        env.step("look around")
    assert env.reset(options={"instance": "boil/0"})[0] == first
    assert env.simulator.process.pid != dead.pid
    assert env.step("look around")[4]["invalid"] is False
    env.close()


def test_two_environments_share_nothing(env: ScienceWorld) -> None:
    other = made()
    first, _ = env.reset(options={"instance": "boil/0"})
    assert other.reset(options={"instance": "boil/0"})[0] == first
    env.step("teleport to kitchen")
    assert env.step("look around")[0] != first
    assert other.step("look around")[0] == first
    assert other.simulator is not None
    assert env.simulator is not None
    assert other.simulator.process.pid != env.simulator.process.pid
    other.close()
    assert env.step("inventory")[0].startswith("In your inventory")


@pytest.mark.slow
def test_a_heap_that_is_too_small_ends_java_instead_of_hanging_it() -> None:
    simulator = Simulator(heap_mb=16)
    with pytest.raises(SimulatorDied, match="out of memory, raise heap_mb"):
        simulator.solution("mendelian-genetics-known-plant", 0, "easy")
    assert simulator.alive is False
    with pytest.raises(SimulatorDied, match="closed"):
        simulator.points()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_episodes_do_not_grow() -> None:
    instances = list(registry.instances("scienceworld", {"variations_per_task": 8}, "train"))
    env = made()
    rng = random.Random(0)

    def play(played_env: Any, index: int) -> None:
        played_env.reset(options={"instance": instances[rng.randrange(len(instances))]})
        assert len(played(played_env, ["teleport to kitchen", *ACTIONS])) == 7

    before = tree_rss_mib()
    # The heap grows up to its limit as the Java process sees fit; what counts is that it stays below.
    check_many_episodes(env, play, growth_mib=300)
    assert tree_rss_mib() - before < 512 + 250
    env.close()
