"""A task and a room in a few words, for a tiny memory policy (Mem-π) that advises the scripted agent.

    prompt   Task clean mug coffeemachine in cabinet countertop drawer fridge sinkbasin Hint:
    hint     countertop fridge <eos>

The prompt names what is to be done, the thing, where it belongs, and each kind of place that the room has, in
the alphabet's order. A hint is kinds of places, in the order in which to look (`searcher.py`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from envs.alfworld.goal import Goal, goal_of
from envs.warmstart import Row

PLACES = (
    "armchair", "bathtubbasin", "bed", "cabinet", "cart", "coffeemachine", "coffeetable", "countertop",
    "desk", "diningtable", "drawer", "dresser", "fridge", "garbagecan", "handtowelholder",
    "laundryhamper", "microwave", "ottoman", "safe", "shelf", "sidetable", "sinkbasin", "sofa",
    "stoveburner", "toaster", "toilet", "toiletpaperhanger", "towelholder", "tvstand",
)  # fmt: skip
"""Kinds of places that the games' rooms list."""
THINGS = (
    "alarmclock", "apple", "book", "bowl", "box", "bread", "butterknife", "candle", "cd", "cellphone",
    "cloth", "creditcard", "cup", "dishsponge", "egg", "fork", "glassbottle", "handtowel", "kettle",
    "keychain", "knife", "ladle", "laptop", "lettuce", "mug", "newspaper", "pan", "pen", "pencil",
    "peppershaker", "pillow", "plate", "pot", "potato", "remotecontrol", "saltshaker", "soapbar",
    "soapbottle", "spatula", "spoon", "spraybottle", "statue", "tissuebox", "toiletpaper", "tomato",
    "vase", "watch", "wateringcan", "winebottle",
)  # fmt: skip
"""Kinds of things that the games' tasks ask for."""
LAMP, OTHER = "desklamp", "other"
DEEDS = ("put", "two", "look", "clean", "heat", "cool")
_FRAME = ("Task", "in", "Hint:", OTHER, LAMP)
_LISTED = re.compile(r"an? ([a-z]+) \d+")
_MOST_HINTED = 2
"""Kinds of places in a demonstrated hint."""


def vocabulary() -> list[str]:
    """Every word of prompts and hints, each once."""
    return [*_FRAME, *DEEDS, *PLACES, *THINGS]


def advice_prompt(task: str, observation: str) -> str:
    """See the module's docstring. What the games don't know is `other`."""
    listed = sorted({kind for kind in _LISTED.findall(observation) if kind in PLACES})
    try:
        goal = goal_of(task)
    except ValueError:
        goal = Goal(OTHER, OTHER)
    return _prompt(goal, listed)


def _prompt(goal: Goal, listed: list[str]) -> str:
    deed = "look" if goal.look else goal.change or ("two" if goal.count == 2 else "put")
    thing = goal.thing if goal.thing in THINGS else OTHER
    place = goal.place if goal.place in (*PLACES, LAMP) else OTHER
    return " ".join(["Task", deed, thing, place, "in", *listed, "Hint:"])


def hints(seed: int) -> Iterator[Row]:
    """Prompts of made-up rooms and tasks, with hints that name places of the room at random (WarmStart)."""
    rng = random.Random(seed)
    while True:
        deed, thing, place = rng.choice(DEEDS), rng.choice(THINGS), rng.choice(PLACES)
        listed = sorted({place, *rng.sample(PLACES, rng.randint(4, 12))})
        words = ["Task", deed, thing, LAMP if deed == "look" else place, "in", *listed, "Hint:"]
        hint = rng.sample(listed, rng.randint(1, _MOST_HINTED))
        yield " ".join(words), f"{' '.join(hint)} <eos>"
