"""What every light environment promises, whatever it is."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

from envs import registry
from envs.base import EpisodeMemory, EpisodeRecord, Message, Step, TextEnv, View

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "doors-compact": ("doors", {"format": "compact"}),
    "doors-text": ("doors", {}),
    "minesweeper-compact": ("minesweeper", {"size": 4, "format": "compact", "max_clicks": 6}),
    "minesweeper-text": ("minesweeper", {}),
    "scout-compact": ("scout", {"format": "compact", "digs": 2}),
    "scout-text": ("scout", {"digs": 2}),
    "sokoban": ("sokoban", {}),
    "sokoban-compact": ("sokoban", {"boxes": 1, "format": "compact", "end_when_unsolvable": False}),
    "sokoban-harder": ("sokoban", {"size": 7, "boxes": 3, "end_when_unsolvable": False}),
}
each = pytest.mark.parametrize(("name", "options"), SETTINGS.values(), ids=SETTINGS)


def test_every_light_environment_is_covered_here() -> None:
    light = {name for name, entry in registry.ENVIRONMENTS.items() if entry.light}
    assert light == {name for name, _ in SETTINGS.values()}


def started(name: str, options: dict[str, Any], index: int = 0, split: str = "train") -> tuple[TextEnv, str]:
    settings = {**options, "admissible": True}
    env = registry.make(name, settings)
    observation, info = env.reset(options={"instance": registry.instances(name, settings, split)[index]})
    assert info["success"] is False
    assert info["invalid"] is False
    return env, observation


def walk(env: TextEnv, seed: int, turns: int = 12) -> list[tuple[str, Any]]:
    """Random admissible play: the actions and all that came back."""
    rng = random.Random(seed)
    trace = []
    for _ in range(turns):
        actions = env.admissible_actions()
        if not actions:
            break
        action = rng.choice(actions)
        trace.append((action, env.step(action)))
    return trace


@each
def test_restart_returns_the_identical_start_whatever_was_played(name: str, options: dict[str, Any]) -> None:
    for index in range(5):
        env, first = started(name, options, index)
        walk(env, index)
        again, info = env.restart()
        assert again == first
        assert info["success"] is False
        assert info["invalid"] is False


@each
def test_the_same_instance_and_actions_give_the_same_everything(name: str, options: dict[str, Any]) -> None:
    one, first = started(name, options, 3)
    other, _ = started(name, options, 4)
    walk(other, 0)
    instance = registry.instances(name, options, "train")[3]
    observation, _ = other.reset(options={"instance": instance})
    assert observation == first
    assert walk(one, 7) == walk(other, 7)
    one.restart()
    other.restart()
    assert walk(one, 8) == walk(other, 8)


@each
def test_the_members_of_a_group_see_the_identical_first_board(name: str, options: dict[str, Any]) -> None:
    for index in range(20):
        random.seed(index)
        boards = {started(name, options, index, "eval")[1] for _ in range(4)}
        assert len(boards) == 1


@each
def test_instances_and_styles_survive_pickling(name: str, options: dict[str, Any]) -> None:
    env, first = started(name, options)
    instance = pickle.loads(pickle.dumps(registry.instances(name, options, "eval")[1]))
    assert env.reset(options={"instance": instance})[0] != first
    view = View(first, episode=1, episodes=3, memory=(EpisodeMemory(0, False, "(1,1)", "(1,2)"),))
    style = pickle.loads(pickle.dumps(registry.style(name, options)))
    assert style.act_prompt(view) == registry.make(name, options).style.act_prompt(view)


@each
@pytest.mark.parametrize("action", ["", "nonsense", "(0,0)", "(99,1)", "up; sideways", "up up", ";"])
def test_an_invalid_action_changes_nothing(name: str, options: dict[str, Any], action: str) -> None:
    env, first = started(name, options)
    observation, reward, terminated, truncated, info = env.step(action)
    assert (observation, reward, terminated, truncated) == (first, 0.0, False, False)
    assert info["invalid"] is True
    assert info["success"] is False
    env.restart()
    rest = walk(env, 5)
    fresh, _ = started(name, options)
    assert rest == walk(fresh, 5)


@each
def test_admissible_actions_are_possible_and_have_an_effect(name: str, options: dict[str, Any]) -> None:
    for index in range(3):
        env, first = started(name, options, index)
        offered = env.admissible_actions()
        assert offered
        for action in offered:
            env.restart()
            observation, _, _, _, info = env.step(action)
            assert info["invalid"] is False
            assert observation != first


@each
def test_admissible_actions_are_listed_only_on_request(name: str, options: dict[str, Any]) -> None:
    env = registry.make(name, options)
    env.reset(options={"instance": registry.instances(name, options, "train")[0]})
    assert env.admissible_actions() is None


@each
def test_nothing_happens_after_the_end(name: str, options: dict[str, Any]) -> None:
    for index in range(200):
        env, _ = started(name, options, index)
        trace = walk(env, index, turns=60)
        _, (observation, _, terminated, _, info) = trace[-1]
        if terminated:
            break
    assert terminated
    action = trace[0][0]
    after, reward, still_over, truncated, late = env.step(action)
    assert (after, reward, still_over, truncated) == (observation, 0.0, True, False)
    assert late["invalid"] is True
    assert late["success"] == info["success"]
    assert env.admissible_actions() == ()


@each
def test_close_may_be_called_again(name: str, options: dict[str, Any]) -> None:
    env, _ = started(name, options)
    env.close()
    env.close()


@each
@pytest.mark.parametrize("instance", [-1, 2**40, "no such board"])
def test_an_instance_that_does_not_exist_is_named(name: str, options: dict[str, Any], instance: Any) -> None:
    env = registry.make(name, options)
    with pytest.raises(registry.EnvSetupError, match=str(instance)):
        env.reset(options={"instance": instance})


@each
def test_reset_without_an_instance_or_restart_before_reset_is_refused(
    name: str, options: dict[str, Any]
) -> None:
    env = registry.make(name, options)
    with pytest.raises(registry.EnvSetupError, match="reset"):
        env.restart()
    with pytest.raises(registry.EnvSetupError, match="instance"):
        env.reset()


@each
def test_the_splits_share_no_instance(name: str, options: dict[str, Any]) -> None:
    train, held = (registry.instances(name, options, split) for split in registry.SPLITS)
    assert len(train) > 500
    assert len(held) > 500
    assert not set(train) & set(held)


# --- chat styles ---

CHAT = {case: value for case, value in SETTINGS.items() if not case.endswith("-compact")}
each_chat = pytest.mark.parametrize(("name", "options"), CHAT.values(), ids=CHAT)


def episode(env: TextEnv, observation: str, *, turns: int, seed: int = 0) -> tuple[list[View], EpisodeRecord]:
    """A few random turns as the trial loop plays them, the third answer unreadable: the views, the record."""
    rng = random.Random(seed)
    memory = (EpisodeMemory(0, False, "what happened before", "what I should do"),)
    steps: list[Step] = []
    views = []
    for turn in range(turns):
        views.append(View(observation, tuple(steps), episode=1, episodes=3, memory=memory))
        offered = env.admissible_actions()
        if not offered:
            break
        response = "I don't know" if turn == 2 else f"Let me see. <action>{rng.choice(offered)}</action>"
        action = env.style.parse_action(response)
        after, reward, over, _, info = env.step(action.text)
        steps.append(Step(observation, response, action.actions, reward, info["invalid"]))
        observation = after
        if over:
            break
    return views, EpisodeRecord(1, tuple(steps), observation, False, "failure")


@each_chat
def test_each_prompt_extends_the_one_before_and_its_answer(name: str, options: dict[str, Any]) -> None:
    seen = 0
    for index in range(10):
        env, first = started(name, options, index)
        views, record = episode(env, first, turns=7)
        prompts = [env.style.act_prompt(view) for view in views]
        prompts.append(env.style.reflect_prompt(views[-1], record))
        for before, step, after in zip(prompts, record.steps, prompts[1:], strict=False):
            assert after[: len(before)] == before
            assert after[len(before)] == Message("assistant", step.response)
            assert len(after) == len(before) + 2
            seen += 1
    assert seen >= 20


@each_chat
def test_only_the_last_turns_are_shown(name: str, options: dict[str, Any]) -> None:
    style = registry.style(name, {**options, "history_turns": 2})
    env, first = started(name, options, 0)
    history = tuple(Step(first, f"answer {turn}", (), 0.0, True) for turn in range(5))
    prompt = style.act_prompt(View(first, history))
    assert [m.content for m in prompt if isinstance(m, Message) and m.role == "assistant"] == [
        "answer 3",
        "answer 4",
    ]
    env.close()


@each_chat
def test_memory_hint_and_tips_stand_in_the_prompt(name: str, options: dict[str, Any]) -> None:
    style = registry.style(name, options)
    _, first = started(name, options)
    plain = style.act_prompt(View(first))
    memory = (EpisodeMemory(0, False, "SUMMARY", "REMARK"),)
    full = style.act_prompt(View(first, memory=memory, tips=("TIP",), hint="HINT", admissible=("GO",)))
    text = "\n".join(message.content for message in full if isinstance(message, Message))
    for word in ("SUMMARY", "REMARK", "TIP", "HINT", "GO"):
        assert word in text
        assert word not in str(plain)
    assert style.act_prompt(View(first, hint=None, tips=(), memory=())) == plain


@each_chat
def test_a_reflection_is_the_last_remark_outside_the_thought(name: str, options: dict[str, Any]) -> None:
    style = registry.style(name, options)
    assert (
        style.parse_reflection("<think><remark>no</remark></think> <remark> go left </remark>").text
        == "go left"
    )
    kept = style.parse_reflection("<remark>" + "x" * 5000 + "</remark>")
    assert len(kept.text) == 2000
    assert kept.invalid is False
    for missing in ("go left", "<remark>go left", "<think><remark>x</remark></think>"):
        assert style.parse_reflection(missing).text == ""
        assert style.parse_reflection(missing).invalid is True


@each_chat
def test_the_account_of_an_episode_tells_its_actions_and_its_end(name: str, options: dict[str, Any]) -> None:
    env, first = started(name, options, 1)
    _, record = episode(env, first, turns=3)
    account = env.summarise(record)
    assert record.final_observation in account
    for step in record.steps:
        for action in step.actions:
            assert action in account
