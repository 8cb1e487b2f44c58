"""ALFWorld's tasks in a few words: what a tiny memory policy is asked, and random hints to begin with."""

from __future__ import annotations

from itertools import islice

import pytest

from envs import registry
from envs.alfworld.searcher import kinds_named
from envs.alfworld.words import PLACES, advice_prompt, hints, vocabulary

ROOM = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 2, a cabinet 1, "
    "a countertop 1, a fridge 1, a sinkbasin 1, and a toaster 1."
)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("clean some mug and put it in coffeemachine.", "clean mug coffeemachine"),
        ("find two candle and put them in toilet.", "two candle toilet"),
        ("look at watch under the desklamp.", "look watch desklamp"),
        ("put some keychain on armchair.", "put keychain armchair"),
        ("put a hot robot in garbagecan.", "heat other garbagecan"),
        ("water the plants.", "put other other"),
    ],
)
def test_a_prompt_names_the_task_and_the_kinds_of_places(task: str, words: str) -> None:
    asked = advice_prompt(f"Your task is to: {task}", ROOM)
    assert asked == f"Task {words} in cabinet countertop fridge sinkbasin toaster Hint:"
    assert {*asked.split()} <= {*vocabulary()}


def test_every_word_stands_in_the_vocabulary_once() -> None:
    assert len(vocabulary()) == len(set(vocabulary()))


def test_demonstrated_hints_name_places_of_their_room_and_are_the_same_for_a_seed() -> None:
    rows = list(islice(hints(0), 2000))
    assert rows == list(islice(hints(0), 2000)) != list(islice(hints(1), 2000))
    for prompt, hint in rows:
        assert {*prompt.split(), *hint.split()} <= {*vocabulary(), "<eos>"}
        listed = prompt.partition(" in ")[2].removesuffix(" Hint:").split()
        *named, end = hint.split()
        assert end == "<eos>"
        assert kinds_named(hint, [f"{kind} 1" for kind in listed]) == named
    assert {word for _, hint in rows for word in hint.split()} == {*PLACES, "<eos>"}


def test_how_a_memory_policy_is_asked_is_an_option() -> None:
    in_words = registry.style("alfworld", {"advice": "words"}).advise_prompt("", ROOM)
    assert isinstance(in_words, str)
    in_text = registry.style("alfworld", {}).advise_prompt("Find it.", ROOM)
    assert not isinstance(in_text, str)
    assert in_text[-1].content == f"Find it.\n\n{ROOM}"
    start = registry.warm_start("alfworld", {"advice": "words"})
    assert start is not None
    assert start.demonstrations is None
    assert registry.warm_start("alfworld", {}) is None
