"""Sokoban's compact format, word for word, its vocabulary and its demonstrator."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from envs.base import EpisodeMemory, EpisodeRecord, Step, View
from envs.options import EnvSetupError
from envs.registry import validate_options
from envs.sokoban import Options, make, warm_start
from envs.sokoban import demonstrator as demonstrator_module
from envs.sokoban.compact import CompactStyle, move_words, vocabulary, written
from envs.sokoban.demonstrator import demonstrations
from envs.sokoban.env import Sokoban
from envs.sokoban.generator import SEEDS, puzzle
from envs.sokoban.room import parse
from envs.warmstart import Memory, Play, Row

SMALL = Options(size=6, boxes=1, max_solution=9, max_turns=4, format="compact", end_when_unsolvable=False)
STYLE = CompactStyle(3)
ROOM = "_P__ _X__ __O_ ____"


@pytest.fixture(autouse=True)
def few_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making rooms is most of what demonstrations cost."""
    monkeypatch.setattr(demonstrator_module, "ROOMS", 64)


def rows(seed: int, memory: Memory, count: int) -> list[Row]:
    return list(islice(demonstrations(SMALL, seed, Play(memory)), count))


def failed(*words: str) -> EpisodeRecord:
    steps = tuple(Step(ROOM, word, STYLE.parse_action(word).actions, 0.0) for word in words)
    return EpisodeRecord(0, steps, ROOM, False, "step_limit")


def test_a_room_is_a_word_a_row_without_its_outer_walls() -> None:
    place, state = parse(["######", "#_P__#", "#_X__#", "#__O_#", "#____#", "######"])
    assert written(place, state) == ROOM
    env = make(SMALL)
    observation, _ = env.reset(options={"instance": 3})
    assert observation == written(env.room, env.state)


def test_the_first_attempt_shows_the_room_alone_and_later_ones_what_was_tried() -> None:
    assert STYLE.act_prompt(View(ROOM, episodes=3)) == f"Try 1 now {ROOM} move:"
    memory = (EpisodeMemory(0, False, "rdl"), EpisodeMemory(1, False, "u"))
    prompt = STYLE.act_prompt(View(ROOM, episode=2, episodes=3, memory=memory))
    assert prompt == f"tried: rdl u Try 3 now {ROOM} move:"
    nothing = View(ROOM, episode=1, memory=(EpisodeMemory(0, False, ""),))
    assert STYLE.act_prompt(nothing) == f"tried: none Try 2 now {ROOM} move:"


def test_what_is_tried_is_the_first_word_of_the_attempt_that_held_moves() -> None:
    assert STYLE.summarise(failed("rd", "u")) == "rd"
    assert STYLE.summarise(failed("now", "u")) == "u"
    assert STYLE.summarise(failed()) == ""


def test_reflections_tips_and_hints_fill_the_same_line() -> None:
    memory = (EpisodeMemory(0, False, "u", "rd"), EpisodeMemory(1, False, "u", ""))
    view = View(ROOM, episode=2, memory=memory, tips=("mind lll please",), hint="dd")
    assert STYLE.act_prompt(view) == f"tried: u rd lll dd Try 3 now {ROOM} move:"
    assert STYLE.reflect_prompt(View(ROOM), failed()) == f"Try 1 lost {ROOM} Note:"


@pytest.mark.parametrize(
    ("answer", "moves"), [("u", ("up",)), (" rdl\n", ("right", "down", "left")), ("dd", ("down", "down"))]
)
def test_an_answer_is_one_word_of_moves(answer: str, moves: tuple[str, ...]) -> None:
    assert STYLE.parse_action(answer).actions == moves
    assert STYLE.parse_reflection(answer).text == answer.strip()


@pytest.mark.parametrize("answer", ["", "up", "rdlu", "u d", "now", "____", "x"])
def test_anything_else_is_invalid(answer: str) -> None:
    assert STYLE.parse_action(answer).invalid
    assert STYLE.parse_action(answer).actions == ()
    assert STYLE.parse_reflection(answer).invalid


def test_the_vocabulary_has_every_word_of_rooms_and_play_once() -> None:
    listed = vocabulary(SMALL)
    assert len(listed) == len(set(listed)) == 7 + 8 + len(move_words(3)) + 464
    assert len(move_words(3)) == 4 + 16 + 64
    for seed in range(40):
        made = puzzle(SMALL, seed)
        assert set(written(made.room, made.start).split()) <= set(listed)


@pytest.mark.parametrize("memory", ["history", "reflection", "both"])
def test_demonstrations_use_only_the_vocabulary_and_answer_with_moves(memory: Memory) -> None:
    known = set(vocabulary(SMALL))
    for prompt, answer in rows(0, memory, 2000):
        assert set(prompt.split()) <= known
        assert answer in move_words(3)


def test_demonstrations_depend_on_their_seed_alone() -> None:
    assert rows(5, "both", 300) == rows(5, "both", 300)
    assert rows(5, "both", 300) != rows(6, "both", 300)


def test_demonstrations_play_train_rooms_only(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    reset = Sokoban.reset

    def recording(self: Sokoban, **given: Any) -> Any:
        played.append(given["options"]["instance"])
        return reset(self, **given)

    monkeypatch.setattr(Sokoban, "reset", recording)
    rows(1, "history", 1000)
    assert len(set(played)) > 30
    assert all(0 <= seed < SEEDS for seed in played)


def test_planned_moves_solve_the_room_by_a_shortest_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLANNER", "PLANNED"):
        monkeypatch.setattr(demonstrator_module, name, 1.0)
    env = make(SMALL)
    for seed in range(30):
        _, info = env.reset(options={"instance": seed})
        played = ""
        while word := demonstrator_module._solution(env, 3):
            played += word
            *_, info = env.step("; ".join(STYLE.parse_action(word).actions))
        assert info["success"]
        assert len(played) == len(puzzle(SMALL, seed).solution)


def test_a_careful_demonstrator_begins_with_something_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrator_module, "CAREFUL", 1.0)
    monkeypatch.setattr(demonstrator_module, "PLANNER", 0.0)
    begun = again = 0
    before = ""
    for prompt, answer in rows(3, "history", 4000):
        if prompt.split("Try ")[0] != before and prompt.startswith("tried:"):
            begun += 1
            again += answer in prompt[: prompt.index(" Try")].split()
        before = prompt.split("Try ")[0]
    assert begun > 300
    assert again / begun < 0.02


@pytest.mark.parametrize(
    "options",
    [
        {"source": "boxoban"},
        {"max_moves_per_turn": 4},
        {"size": 8},
        {"boxes": 3},
    ],
)
def test_what_the_format_can_not_write_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(EnvSetupError, match=rf"{next(iter(options))}.* with format=compact"):
        validate_options("sokoban", {"format": "compact", **options})


def test_chat_rooms_have_no_warm_start_of_their_own() -> None:
    assert warm_start(Options()) is None
    with pytest.raises(ValueError, match="compact"):
        next(demonstrations(Options(), 0, Play()))
