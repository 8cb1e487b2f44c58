"""Doors: the hidden rule, the two formats, tips in words, the split, the demonstrator."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from envs import registry
from envs.base import EpisodeMemory, EpisodeRecord, Step, View
from envs.doors import Options, instances, make, style, warm_start
from envs.doors.compact import CompactStyle, vocabulary
from envs.doors.demonstrator import demonstrations
from envs.doors.env import GOAL, OUTSIDE, Doors
from envs.doors.house import rule_of
from envs.options import EnvSetupError
from envs.warmstart import Play, Row
from tests.envs.contract import check_determinism, check_hostile, check_restart

SMALL = Options(format="compact")
STYLE = CompactStyle(SMALL)
HOUSE = "hall-attic-cellar-garden-stable"


def started(options: Options = SMALL, house: str = HOUSE) -> Doors:
    env = make(options)
    env.reset(options={"instance": house})
    return env


def step(room: str, door: str, *, invalid: bool = False) -> Step:
    return Step(room, door, () if invalid else (door,), 0.0, invalid)


def record(*steps: Step, end: str) -> EpisodeRecord:
    return EpisodeRecord(0, steps, end, end == GOAL, "success" if end == GOAL else "failure")


# --- the game ---


def test_the_right_doors_lead_from_room_to_room_to_the_goal_which_alone_is_rewarded() -> None:
    env = started()
    seen = []
    for room in HOUSE.split("-"):
        observation, reward, over, _, info = env.step(env.rule[room])
        seen.append((observation, reward, over, info["success"]))
    rooms = HOUSE.split("-")[1:]
    assert seen == [*((room, 0.0, False, False) for room in rooms), (GOAL, 1.0, True, True)]


def test_any_other_door_leads_outside_and_ends_it() -> None:
    for room in range(5):
        for door in SMALL.door_words:
            env = started()
            for passed in HOUSE.split("-")[:room]:
                env.step(env.rule[passed])
            if door != env.rule[HOUSE.split("-")[room]]:
                observation, reward, over, _, info = env.step(door)
                assert (observation, reward, over, info["success"]) == (OUTSIDE, 0.0, True, False)


def test_the_rule_is_the_same_in_all_houses_and_another_seed_gives_another() -> None:
    one, other = started(house=HOUSE), started(house="stable-garden-cellar-attic-hall")
    assert one.rule == other.rule
    rules = {tuple(rule_of(seed, SMALL.kind_words, SMALL.door_words).items()) for seed in range(20)}
    assert len(rules) == 20


@pytest.mark.parametrize("form", ["compact", "text"])
def test_keeps_the_contract(form: str) -> None:
    options = {"format": form}
    env = registry.make("doors", options)
    right = started().rule["hall"]
    for actions in ([right, "red"], ["red"], ["blue", "blue"]):
        check_restart(env, HOUSE, actions)
        check_hostile(env, HOUSE, actions)
    check_determinism("doors", options, HOUSE, [right, "blue"])


def test_random_play_reaches_the_goal_less_than_once_in_a_thousand_houses() -> None:
    assert (1 / SMALL.doors) ** SMALL.rooms < 1e-3


# --- the split ---


def test_every_order_is_in_one_split_and_the_first_train_houses_have_all_kinds() -> None:
    train, held = (instances(SMALL, split) for split in registry.SPLITS)
    assert len(train) + len(held) == 8 * 7 * 6 * 5 * 4
    assert not {*train} & {*held}
    assert 0.15 < len(held) / (len(train) + len(held)) < 0.25
    few = replace(SMALL, houses=64)
    assert instances(few, "train") == train[:64]
    assert instances(few, "eval") == held
    for place in range(5):
        assert {str(house).split("-")[place] for house in train[:64]} == {*SMALL.kind_words}


@pytest.mark.parametrize(
    "house", ["hall", "hall-hall-attic-cellar-garden", "hall-attic-cellar-garden-moon", 3]
)
def test_a_house_that_does_not_exist_is_named(house: str | int) -> None:
    with pytest.raises(EnvSetupError, match=str(house)):
        make(SMALL).reset(options={"instance": house})


# --- the compact format ---


def test_a_prompt_is_the_room_alone() -> None:
    assert STYLE.act_prompt(View("hall")) == "Room hall door:"


def test_tips_show_the_doors_for_this_room_the_best_first() -> None:
    tips = ("hall blue", "cellar red", "attic gold", "hall red hall blue")
    assert STYLE.act_prompt(View("hall", tips=tips)) == "tips: blue red Room hall door:"
    assert STYLE.act_prompt(View("cellar", tips=tips)) == "tips: red Room cellar door:"
    assert STYLE.act_prompt(View("stable", tips=tips)) == "tips: none Room stable door:"
    assert STYLE.act_prompt(View("hall", tips=("gold hall moon",))) == "tips: none Room hall door:"


def test_hints_and_memory_are_shown_like_tips() -> None:
    memory = (EpisodeMemory(0, False, "hall red", "hall blue"),)
    assert STYLE.act_prompt(View("hall", hint="hall gold")) == "tips: gold Room hall door:"
    assert STYLE.act_prompt(View("hall", memory=memory)) == "tips: red blue Room hall door:"


def test_a_tip_is_asked_for_with_the_doors_that_were_tried() -> None:
    lost = record(step("hall", "blue"), step("attic", "red"), end=OUTSIDE)
    won = record(step("hall", "blue"), step("attic", "red"), end=GOAL)
    cut = record(step("hall", "blue"), step("attic", "moon", invalid=True), end="attic")
    assert STYLE.tip_prompt(View(OUTSIDE), lost) == "not attic red far hall blue Tip: far"
    assert STYLE.tip_prompt(View(GOAL), won) == "on hall blue far attic red Tip: far"
    assert STYLE.tip_prompt(View("attic"), cut) == "far hall blue Tip: far"
    assert STYLE.summarise(lost) == "hall blue"
    assert STYLE.summarise(won) == "hall blue attic red"


@pytest.mark.parametrize("answer", ["hall blue", " hall  blue\n"])
def test_a_tip_is_a_room_and_its_door(answer: str) -> None:
    assert STYLE.parse_tip(answer).text == "hall blue"
    assert STYLE.parse_tip(answer).invalid is False


@pytest.mark.parametrize("answer", ["", "none", "hall", "hall blue door:", "blue hall", "hall moon"])
def test_anything_else_is_no_tip(answer: str) -> None:
    assert STYLE.parse_tip(answer).text == ""
    assert STYLE.parse_tip(answer).invalid is True


def test_a_reflection_may_say_that_there_is_nothing_to_say() -> None:
    assert STYLE.parse_reflection("none") == STYLE.parse_reflection(" none ")
    assert STYLE.parse_reflection("none").invalid is False
    assert STYLE.parse_reflection("hall blue").text == "hall blue"


@pytest.mark.parametrize("answer", ["", "Room", "moon", "red blue", "hall red"])
def test_an_action_is_one_door(answer: str) -> None:
    assert STYLE.parse_action(answer).invalid is True
    assert STYLE.parse_action(" red ").actions == ("red",)


# --- the text format ---


def test_the_account_says_of_each_door_whether_it_led_on() -> None:
    lost = record(step("hall", "blue"), step("attic", "red"), end=OUTSIDE)
    assert style(Options()).summarise(lost) == (
        "In the hall the blue door led on.\nIn the attic the red door did not lead on.\nThe end: outside"
    )


# --- the demonstrator ---


def rows(count: int, seed: int = 0) -> list[Row]:
    return list(islice(demonstrations(SMALL, seed, Play()), count))


def test_demonstrations_use_only_the_vocabulary_and_depend_on_their_seed_alone() -> None:
    start = warm_start(SMALL)
    assert start is not None
    known = {*start.vocabulary, "<eos>"}
    assert len(vocabulary(SMALL)) == len(set(vocabulary(SMALL))) == 24
    shown = rows(3000)
    assert all({*prompt.split(), *answer.split()} <= known for prompt, answer in shown)
    assert shown == rows(3000) != rows(3000, seed=1)


def test_demonstrations_tell_nothing_of_the_real_rule() -> None:
    rule, right = started().rule, Counter[bool]()
    for prompt, answer in rows(40_000):
        words = prompt.split()
        if words[-1] == "door:":
            right[rule[words[-2]] == answer] += 1
    assert right[True] / right.total() == pytest.approx(1 / 6, abs=0.01)


def test_the_first_door_of_the_tips_is_mostly_heeded() -> None:
    named = heeded = 0
    for prompt, answer in rows(40_000):
        if prompt.startswith("tips:") and not prompt.startswith("tips: none"):
            named += 1
            heeded += answer == prompt.split()[1]
    assert heeded / named == pytest.approx(0.9 + 0.1 / 6, abs=0.02)


def test_a_demonstrated_tip_is_the_last_door_that_led_on() -> None:
    told = Counter[bool]()
    for prompt, answer in rows(20_000):
        if prompt.endswith("Tip: far"):
            *_, mark, room, door, _, _ = prompt.split()
            told[mark == "far"] += 1
            assert answer == (f"{room} {door}" if mark == "far" else "none <eos>")
    assert told[True] > 1000 < told[False]


def test_houses_of_the_train_split_alone_are_demonstrated(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    reset = Doors.reset

    def recording(self: Doors, **given: Any) -> Any:
        played.append(given["options"]["instance"])
        return reset(self, **given)

    monkeypatch.setattr(Doors, "reset", recording)
    rows(3000)
    assert len(set(played)) > 100
    assert set(played) <= set(instances(SMALL, "train"))
