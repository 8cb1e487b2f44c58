"""MiniWoB++ in a real browser: the same pages again, rewards as the benchmark's, solved by reading."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from envs import registry
from envs.base import TextEnv
from envs.browser.observation import shortened
from envs.miniwob.env import ACTIONS
from envs.miniwob.tasks import BASIC, TASKS
from envs.options import EnvSetupError
from tests.envs import contract
from tests.envs.elsewhere import Elsewhere, python_of
from tests.envs.miniwob_solutions import SOLUTIONS, Page, solved

PATIENT = {"action_timeout_s": 30.0}
FEW = (
    "click-checkboxes/2",
    "click-collapsible-2/1",
    "enter-password/10001",
    "email-inbox-delete/1",
    "choose-list/2",
)


@pytest.fixture(scope="module")
def env() -> Iterator[Elsewhere]:
    there = Elsewhere("miniwob", PATIENT)
    yield there
    there.close()


def test_instances_are_tasks_with_seeds_that_the_splits_do_not_share() -> None:
    train, evaluation = (registry.instances("miniwob", {}, split) for split in ("train", "eval"))
    assert len(train) == 125 * 200
    assert len(evaluation) == 125 * 5
    assert not set(train) & set(evaluation)
    assert train[0] == "ascending-numbers/0"
    assert evaluation[125] == "ascending-numbers/10001"
    few = registry.instances("miniwob", {"tasks": "click-test, click-link", "train_seeds": 2}, "train")
    assert few == ["click-test/0", "click-link/0", "click-test/1", "click-link/1"]
    assert len(registry.instances("miniwob", {"tasks": "basic", "eval_seeds": 1}, "eval")) == len(BASIC)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"tasks": "click-test,click-nothing"}, ["tasks='click-nothing'", "basic"]),
        ({"train_seeds": 0}, ["train_seeds=0"]),
        ({"turn_ms": -1}, ["turn_ms=-1"]),
        ({"actions": "python"}, ["actions='python'", "all, elements"]),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(options: dict[str, object], parts: list[str]) -> None:
    with pytest.raises(EnvSetupError) as error:
        registry.validate_options("miniwob", options)
    assert all(part in str(error.value) for part in parts)


_THEIRS = """
import json, os
os.environ["MINIWOB_URL"] = "unused"
from browsergym.core.action.highlevel import HighLevelActionSet
from browsergym.miniwob import ALL_MINIWOB_TASKS
sets = [list(HighLevelActionSet([name]).action_set) for name in ("miniwob_all", "miniwob_liu18")]
print(json.dumps([[task.subdomain for task in ALL_MINIWOB_TASKS], *sets]))
"""


def test_tasks_and_actions_are_the_benchmarks() -> None:
    done = subprocess.run(
        [python_of("miniwob"), "-c", _THEIRS], capture_output=True, text=True, check=True, timeout=120
    )
    tasks, everything, elements = json.loads(done.stdout.splitlines()[-1])
    assert tuple(tasks) == TASKS
    assert set(everything) == set(ACTIONS["all"])
    assert set(elements) == set(ACTIONS["elements"])


def test_there_is_a_solution_for_every_basic_task() -> None:
    assert set(BASIC) <= set(SOLUTIONS)


@pytest.mark.parametrize("instance", FEW)
def test_a_reader_of_the_page_succeeds(env: Elsewhere, instance: str) -> None:
    assert solved(env, instance)[:2] == (True, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("task", SOLUTIONS)
def test_a_reader_of_the_page_succeeds_on_several_seeds(env: Elsewhere, task: str) -> None:
    for seed in (0, 3, 10_002):
        assert solved(env, f"{task}/{seed}")[:2] == (True, 1.0), seed


def test_a_wrong_click_ends_the_episode_without_reward(env: Elsewhere) -> None:
    observation, info = env.reset(options={"instance": "click-test-2/1"})
    assert info["instruction"] == "Click button ONE."
    observation, reward, over, _, info = env.step(f"click({Page(observation).one('button', 'TWO')!r})")
    assert (reward, over, info["success"], info["score"]) == (0.0, True, False, 0.0)
    assert info["raw_reward"] < 0
    assert env.step("click('13')")[1:3] == (0.0, True)
    assert env.step("click('13')")[4]["invalid"] is True


def test_an_action_on_what_is_not_there_is_invalid_and_says_so(env: Elsewhere) -> None:
    env.reset(options={"instance": "enter-text/1"})
    observation, reward, over, _, info = env.step("click('99')")
    assert info["invalid"] is True
    assert (reward, over) == (0.0, False)
    assert observation.endswith('Error of the last action: ValueError: Could not find element with bid "99"')
    observation, _, _, _, info = env.step("fill('15', 'a button takes no text')")
    assert info["invalid"] is False
    assert "Error of the last action: " in observation


def test_restarting_gives_the_same_page_and_the_same_story(env: Elsewhere) -> None:
    trace = contract.check_restart(
        env, "click-collapsible-2/1", ["click('16')", "click('20')", "click('20')"]
    )
    assert len({step[0] for step in trace}) > 1


def test_hostile_actions_change_nothing(env: Elsewhere) -> None:
    contract.check_hostile(env, "login-user/4", ["click('16')", "keyboard_type('a')"])


def test_waiting_lets_the_pages_time_pass(env: Elsewhere) -> None:
    def shown(observation: str) -> str:
        return next(text for text in Page(observation).texts() if text.startswith("$"))

    first, _ = env.reset(options={"instance": "stock-market/2"})
    prices = [shown(first), *(shown(env.step("noop(0)")[0]) for _ in range(3))]
    assert len(set(prices)) > 1
    env.restart()
    assert shown(env.step("noop(2000)")[0]) == prices[3]  # a turn's own second and two more
    env.restart()
    env.step("noop(1000)")
    assert shown(env.step("scroll(0, 1)")[0]) == prices[3]


def test_two_processes_see_the_same_even_where_time_matters() -> None:
    actions = ["noop(0)", "noop(0)", "click('22')"]
    contract.check_determinism("miniwob", PATIENT, "stock-market/2", actions, python_of("miniwob"))


def test_an_unknown_instance_is_named(env: Elsewhere) -> None:
    for instance in ("click-test", "click-test/x", "click-tests/1", "click-test/-1", "../etc/1", 7):
        with pytest.raises(EnvSetupError, match="must be task/seed"):
            env.reset(options={"instance": instance})
    assert env.reset(options={"instance": "click-test/1"})[1]["instruction"] == "Click the button."


def test_observations_can_show_html_centres_and_pictures() -> None:
    shapes = Elsewhere("miniwob", {"observation": "html", "coordinates": True, "screenshot": True})
    try:
        observation, info = shapes.reset(options={"instance": "click-shape/1"})
        assert info["instruction"] == "Click on a small yellow item"
        assert info["screenshot"].startswith(b"\x89PNG")
        yellow = re.search(r'center="\((\d+),(\d+)\)" fill="yellow" font-size="10px"', observation)
        assert yellow
        _, reward, over, _, info = shapes.step(f"mouse_click({yellow[1]}, {yellow[2]})")
        assert (reward, over) == (1.0, True)
        assert info["screenshot"].startswith(b"\x89PNG")
    finally:
        shapes.close()


def test_a_long_page_is_cut_and_says_so() -> None:
    assert shortened("x" * 120, 120) == "x" * 120
    assert shortened("x" * 120, 100) == "x" * 100 + "\n(cut here: 20 more characters)"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_task_restarts_to_the_identical_page(env: Elsewhere) -> None:
    for task in TASKS:
        first, info = env.reset(options={"instance": f"{task}/5"})
        assert info["instruction"], task
        assert env.restart()[0] == first, task


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_memory_and_processes_do_not_grow_over_many_episodes(env: Elsewhere) -> None:
    short = ("click-test", "click-link", "focus-text", "enter-text")

    def play(there: TextEnv, index: int) -> None:
        assert solved(there, f"{short[index % len(short)]}/{index}")[0]

    # A browser's helpers end a little later than what they helped; a leak would be one per episode.
    contract.check_many_episodes(env, play, episodes=200, warm=60, growth_mib=150.0, passing=5)
