"""Doors' pictures: what they show, when there is one, and what is asked with one."""

from __future__ import annotations

import io
from itertools import islice

from PIL import Image

from envs.doors import Options, make, style, warm_start
from envs.doors.options import KINDS
from envs.doors.picture import SIDE, room_png

OPTIONS = Options(format="compact", screenshot=True)
HOUSE = "attic-hall-cellar-chapel-kitchen"


def test_every_kind_of_room_looks_different_and_the_same_each_time() -> None:
    doors = OPTIONS.door_words
    pictures = [room_png(kind, doors) for kind in KINDS]
    assert len(set(pictures)) == len(KINDS)
    room_png.cache_clear()
    assert pictures == [room_png(kind, doors) for kind in KINDS]
    assert Image.open(io.BytesIO(pictures[0])).size == (SIDE, SIDE)


def test_the_first_observation_has_a_picture_if_the_options_ask_for_one() -> None:
    env = make(OPTIONS)
    for _, info in (env.reset(options={"instance": HOUSE}), env.restart()):
        assert info["screenshot"] == room_png("attic", OPTIONS.door_words)
    assert "screenshot" not in make(Options()).reset(options={"instance": HOUSE})[1]


def test_with_a_picture_the_question_leaves_the_room_s_name_out() -> None:
    assert style(OPTIONS).advise_prompt("walk", "attic") == "Room Tip:"
    assert style(Options(format="compact")).advise_prompt("walk", "attic") == "Room attic Tip:"


def test_a_warm_start_s_pictures_are_of_the_rooms_that_its_hints_name() -> None:
    start = warm_start(OPTIONS)
    assert start is not None
    assert start.hints is not None
    assert start.sights is not None
    for (prompt, hint), png in islice(zip(start.hints(3), start.sights(3), strict=False), 20):
        assert prompt == "Room Tip:"
        assert png == room_png(hint.split()[0], OPTIONS.door_words)
