"""Environments whose outcomes are remembered: the same trials, fewer steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rollout.local_env import LocalEnvs
from actors.rollout.protocols import Outcome, Situation
from actors.rollout.remembered import OutcomeBook, RememberingEnvs
from agentmem.failures import AgentMemError
from envs import registry
from envs.base import TextEnv

BOARD = {"size": 4, "mines": 3, "format": "compact", "max_clicks": 6}
CELLS = [f"{row},{column}" for row in range(1, 5) for column in range(1, 5)]


class Counting:
    """MineSweeper, with a count of what is asked of it."""

    def __init__(self) -> None:
        self.resets = self.restarts = self.steps = 0

    def make(self) -> TextEnv:
        env, outer = registry.make("minesweeper", BOARD), self
        reset, restart, step = env.reset, env.restart, env.step

        def counted_reset(**given: object) -> object:
            outer.resets += 1
            return reset(**given)  # type: ignore[arg-type]

        def counted_restart() -> object:
            outer.restarts += 1
            return restart()

        def counted_step(action: str) -> object:
            outer.steps += 1
            return step(action)

        env.reset, env.restart, env.step = counted_reset, counted_restart, counted_step  # type: ignore
        return env


INSTANCES = registry.instances("minesweeper", BOARD, "train")[:3]
Course = tuple[int, list[list[str]]]
COURSES = st.lists(
    st.tuples(
        st.integers(0, 2), st.lists(st.lists(st.sampled_from(CELLS), max_size=4), min_size=1, max_size=3)
    ),
    min_size=1,
    max_size=6,
)


async def told(envs: RememberingEnvs | LocalEnvs, course: Course) -> list[Situation | Outcome]:
    """All that a trial hears: an episode for each list of actions, each to its end."""
    which, episodes = course
    env = await envs.open()
    heard: list[Situation | Outcome] = []
    for number, actions in enumerate(episodes):
        heard.append(await (env.restart() if number else env.reset(INSTANCES[which])))
        for action in actions:
            outcome = await env.step(action)
            heard.append(outcome)
            if outcome.over:
                break
    await env.close()
    return heard


@given(COURSES)
async def test_trials_hear_what_they_would_hear_from_the_environment(courses: list[Course]) -> None:
    plain = LocalEnvs(lambda: registry.make("minesweeper", BOARD))
    remembering = RememberingEnvs(LocalEnvs(lambda: registry.make("minesweeper", BOARD)), 20)
    for course in courses:
        assert await told(remembering, course) == await told(plain, course)


async def test_a_course_that_was_played_is_told_without_an_environment() -> None:
    counting = Counting()
    envs = RememberingEnvs(LocalEnvs(counting.make), 100)
    course = (0, [["1,1", "1,2"], ["4,4"]])
    first = await told(envs, course)
    seen = (counting.resets, counting.restarts, counting.steps)
    assert await told(envs, course) == first
    assert (counting.resets, counting.restarts, counting.steps) == seen


async def test_a_new_action_behind_a_known_course_is_played_where_the_course_leads() -> None:
    counting = Counting()
    envs = RememberingEnvs(LocalEnvs(counting.make), 100)
    plain = LocalEnvs(lambda: registry.make("minesweeper", BOARD))
    await told(envs, (0, [["1,1"]]))
    further = (0, [["1,1", "1,2"]])
    assert await told(envs, further) == await told(plain, further)


async def test_the_longest_unused_instances_are_forgotten_first() -> None:
    counting = Counting()
    envs = RememberingEnvs(LocalEnvs(counting.make), 2)
    for which in (0, 1, 2):
        await told(envs, (which, [["1,1"]]))
    before = counting.resets
    await told(envs, (2, [["1,1"]]))
    assert counting.resets == before
    await told(envs, (0, [["1,1"]]))
    assert counting.resets == before + 1


def test_an_environment_that_says_something_else_the_second_time_is_found_out() -> None:
    book = OutcomeBook(10)
    book.began("a", Situation("a room"))
    book.led_to("a", ("go",), Outcome("a hall", 0.0, False))
    book.led_to("a", ("go",), Outcome("a hall", 0.0, False))
    with pytest.raises(AgentMemError, match="env.remember_turns: instance a isn't deterministic: go led to"):
        book.led_to("a", ("go",), Outcome("a cellar", 0.0, False))
