"""The scripted agent of ALFWorld: it reads any task, searches in a poor order, and follows a hint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from envs import registry
from envs.alfworld.env import AlfWorld
from envs.alfworld.goal import Goal, goal_of
from envs.alfworld.searcher import Searcher, kinds_named
from envs.base import Step, View

OPTIONS = {"games": "sample24", "admissible": False}
POTATO = "train/pick_heat_then_place_in_recep-Potato-None-CounterTop-15/trial_T20190908_231700_114762"
CARDS = "train/pick_two_obj_and_place-CreditCard-None-ArmChair-227/trial_T20190907_075635_674582"
CLOCK = "train/look_at_obj_in_light-AlarmClock-None-DeskLamp-314/trial_T20190908_042426_942777"
LETTUCE = "train/pick_cool_then_place_in_recep-Lettuce-None-DiningTable-21/trial_T20190909_045111_863875"
SPONGE = "train/pick_clean_then_place_in_recep-DishSponge-None-Cart-430/trial_T20190906_233458_108018"


@pytest.fixture(scope="module")
def env() -> Iterator[AlfWorld]:
    with contextlib.closing(registry.make("alfworld", OPTIONS)) as made:
        assert isinstance(made, AlfWorld)
        yield made


def play(env: AlfWorld, game: str, hint: str | None = None, most: int = 50) -> list[str]:
    """The commands of a whole game."""
    observation, info = env.reset(options={"instance": game})
    task, steps, over, player = info["instruction"], (), False, Searcher()
    while not over and len(steps) < most:
        answer = player.respond(View(observation, history=steps, instruction=task, hint=hint))
        command = env.style.parse_action(answer)
        assert not command.invalid, answer
        after, reward, over, _, info = env.step(command.text)
        steps = (*steps, Step(observation, answer, command.actions, reward, info["invalid"]))
        observation = after
    return [step.actions[0] for step in steps]


@pytest.mark.parametrize(
    ("task", "goal"),
    [
        ("put some creditcard on armchair.", Goal("creditcard", "armchair")),
        ("put a mug in cabinet.", Goal("mug", "cabinet")),
        ("put an apple in/on fridge.", Goal("apple", "fridge")),
        ("put two creditcard in armchair.", Goal("creditcard", "armchair", count=2)),
        ("find two candle and put them in toilet.", Goal("candle", "toilet", count=2)),
        ("put a clean soapbar in toilet.", Goal("soapbar", "toilet", "clean")),
        ("clean some mug and put it in coffeemachine.", Goal("mug", "coffeemachine", "clean")),
        ("put a hot egg in garbagecan.", Goal("egg", "garbagecan", "heat")),
        ("heat some egg and put it in diningtable.", Goal("egg", "diningtable", "heat")),
        ("put a cool lettuce in countertop.", Goal("lettuce", "countertop", "cool")),
        ("cool some mug and put it in shelf.", Goal("mug", "shelf", "cool")),
        ("look at watch under the desklamp.", Goal("watch", "desklamp", look=True)),
        ("examine the cd with the desklamp.", Goal("cd", "desklamp", look=True)),
    ],
)
def test_every_kind_of_task_is_understood(task: str, goal: Goal) -> None:
    assert goal_of(f"Your task is to: {task}") == goal


def test_an_unknown_task_is_quoted() -> None:
    with pytest.raises(ValueError, match="water the plants"):
        goal_of("Your task is to: water the plants.")


def test_a_hint_is_read_for_kinds_of_places_that_the_room_has() -> None:
    places = ["drawer 2", "drawer 1", "fridge 1", "countertop 1"]
    assert kinds_named("countertop fridge", places) == ["countertop", "fridge"]
    assert kinds_named("Look into the Drawers, then the fridge; drawers again.", places) == [
        "drawer",
        "fridge",
    ]
    assert kinds_named("try the sofa", places) == []


@pytest.mark.parametrize("game", [POTATO, CARDS, CLOCK, LETTUCE, SPONGE])
def test_games_of_all_types_are_won(env: AlfWorld, game: str) -> None:
    assert len(play(env, game)) < 50
    assert env.game.won


@pytest.mark.parametrize(
    ("game", "kind"), [(POTATO, "countertop"), (CARDS, "coffeetable"), (LETTUCE, "diningtable")]
)
def test_a_right_hint_saves_turns_and_a_wrong_one_costs_some(env: AlfWorld, game: str, kind: str) -> None:
    alone = len(play(env, game))
    assert len(play(env, game, f"Look into the {kind} first.")) < alone
    assert len(play(env, game, "garbagecan bed shelf drawers stoveburner")) > alone


def test_a_hint_that_names_nothing_changes_nothing(env: AlfWorld) -> None:
    assert play(env, CLOCK) == play(env, CLOCK, "") == play(env, CLOCK, "Good luck!")
