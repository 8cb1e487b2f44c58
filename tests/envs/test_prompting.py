"""Prompting baselines: only the rules change, and the action is read after the thought."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from envs import registry
from envs.base import EpisodeRecord, Message, PromptStyle, Step, View
from envs.minesweeper import Options as MineOptions
from envs.minesweeper import style as mine_style
from envs.options import EnvSetupError
from envs.prompting import PROMPTINGS, REACT, RECIPE, ZERO_SHOT, prompted

STYLE = mine_style(MineOptions())
BOARD = "Row 1: ? 1 ."
STEP = Step(BOARD, "Thought: hm\nAction: <action>(1,1)</action>", ("(1,1)",), 0.0)
CHAT_OPTIONS: dict[str, dict[str, Any]] = {"minesweeper": {"format": "text"}, "scout": {"format": "text"}}


def messages(style: PromptStyle, view: View) -> tuple[Message, ...]:
    prompt = style.act_prompt(view)
    assert not isinstance(prompt, str)
    return prompt


def chat_styles() -> list[str]:
    """Of environments that can be had here; a mixture's are its domains'."""
    known = registry.ENVIRONMENTS.items()
    return [name for name, entry in known if not entry.mixes and registry.check(name) == []]


def test_as_the_recipe_asks_is_the_style_itself() -> None:
    assert prompted(STYLE, RECIPE) is STYLE


@pytest.mark.parametrize("prompting", [ZERO_SHOT, REACT])
def test_only_the_rules_differ_and_all_prompts_of_an_episode_share_them(prompting: str) -> None:
    asked = prompted(STYLE, prompting)
    first, later = View(BOARD), View(BOARD, history=(STEP,))
    record = EpisodeRecord(0, (STEP,), BOARD, False, "failure")
    for made, own in (
        (messages(asked, first), messages(STYLE, first)),
        (messages(asked, later), messages(STYLE, later)),
        (asked.reflect_prompt(later, record), STYLE.reflect_prompt(later, record)),
        (asked.tip_prompt(later, record), STYLE.tip_prompt(later, record)),
    ):
        assert made[1:] == own[1:]
        assert made[0] == messages(asked, first)[0]
    assert asked.summarise(record) == STYLE.summarise(record)
    assert pickle.loads(pickle.dumps(asked)) == asked


def test_zero_shot_asks_for_no_reasoning_and_react_for_a_thought_and_then_an_action() -> None:
    zero, react = (messages(prompted(STYLE, p), View(BOARD))[0].content for p in (ZERO_SHOT, REACT))
    assert "no reasoning" in zero
    assert "Thought:" not in zero
    assert react.index("Thought:") < react.index("Action:")
    for rules in (zero, react):
        assert "Think first" not in rules
        assert "Give the cell as <action>" in rules


@pytest.mark.parametrize("name", chat_styles())
def test_no_environments_rules_contradict_the_baseline(name: str) -> None:
    style = registry.style(name, CHAT_OPTIONS.get(name, {}))
    own = messages(style, View(BOARD))[0].content
    for prompting in (ZERO_SHOT, REACT):
        rules = messages(prompted(style, prompting), View(BOARD))[0].content
        assert "think first" not in rules.lower()
        assert len(rules) > len(own) - 40


@pytest.mark.parametrize(
    ("answer", "cell"),
    [
        ("Thought: (1,1) looks safe.\nAction: <action>(2,2)</action>", "(2,2)"),
        ("Thought: <action>(1,1)</action> would lose.\nAction: <action>(2,2)</action>", "(2,2)"),
        ("Action: <action>(1,1)</action>\nThought: no.\nAction: <action>(2,2)</action>", "(2,2)"),
        ("<action>(2,2)</action>", "(2,2)"),
        ("<think>Action: <action>(1,1)</action></think><action>(2,2)</action>", "(2,2)"),
    ],
)
def test_the_action_is_read_after_the_thought(answer: str, cell: str) -> None:
    assert prompted(STYLE, REACT).parse_action(answer).actions == (cell,)


def test_a_thought_without_an_action_is_invalid() -> None:
    asked = prompted(STYLE, REACT)
    assert asked.parse_action("Thought: <action>(1,1)</action> is next.\nAction: now").invalid
    assert asked.parse_action("Thought: I open the corner.").invalid


@pytest.mark.parametrize(("prompting", "says"), [(REACT, "chat messages"), ("socratic", "known are recipe")])
def test_what_can_not_be_asked_is_refused(prompting: str, says: str) -> None:
    with pytest.raises(EnvSetupError, match=says):
        prompted(mine_style(MineOptions(size=4, format="compact")), prompting)
    assert len(PROMPTINGS) == 3
