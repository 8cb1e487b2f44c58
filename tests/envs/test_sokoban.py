"""Sokoban's rules, its solver and its rooms."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.base import EpisodeRecord, Step
from envs.sokoban import Options, instances, make, style
from envs.sokoban.env import Sokoban
from envs.sokoban.generator import Puzzle, held_out, puzzle, split_key
from envs.sokoban.room import MOVES, Room, State, moved, parse, rows, solved
from envs.sokoban.solver import shortest, solvable

CORRIDOR = ["#######", "#P_XO_#", "#_____#", "#_____#", "#_____#", "#######"]


def playing(picture: list[str], options: Options | None = None) -> Sokoban:
    """An environment whose puzzle is this picture."""
    env = make(options or Options())
    square = [row.ljust(7, "#") for row in picture] + ["#" * 7] * (7 - len(picture))
    place, start = parse(square)
    env.puzzle = Puzzle(place, start, tuple(shortest(place, start, 60) or ()))
    env.restart()
    return env


def test_a_picture_survives_parsing() -> None:
    picture = ["#####", "#S√_#", "#_XO#", "#___#", "#####"]
    place, state = parse(picture)
    assert rows(place, state) == picture


def test_the_observation_is_one_line_a_row() -> None:
    env = playing(CORRIDOR)
    observation, _ = env.restart()
    assert observation.splitlines()[1] == "Row 2: # P _ X O _ #"
    assert len(observation.splitlines()) == 7


def test_a_win_on_the_first_of_three_moves_keeps_its_reward() -> None:
    env = playing(["#######", "#_PXO_#", "#_____#"])
    observation, reward, terminated, truncated, info = env.step("right; right; right")
    assert reward == pytest.approx(-0.1 + 1 + 10)
    assert terminated
    assert not truncated
    assert info["success"]
    assert observation.splitlines()[1] == "Row 2: # _ _ P √ _ #"  # the other two moves weren't made


def test_all_rewards_of_a_turn_count() -> None:
    env = playing(["#######", "#PXO__#", "#_____#", "#__XO_#"])
    _, reward, over, _, info = env.step("right; right; left")  # onto the target, off it, and a free step
    assert reward == pytest.approx(3 * -0.1 + 1 - 1)
    assert not over
    assert not info["success"]


def test_blocked_moves_change_nothing_but_cost_a_move() -> None:
    env = playing(CORRIDOR)
    first, _ = env.restart()
    observation, reward, over, _, info = env.step("up; left")
    assert (observation, over) == (first, False)
    assert reward == pytest.approx(-0.2)
    assert info["no_effect"] is True
    assert info["invalid"] is False
    assert env.step("down")[4]["no_effect"] is False


def test_two_boxes_in_a_row_cannot_be_pushed() -> None:
    place, state = parse(["######", "#PXX_#", "#OO__#", "#____#", "#____#", "######"])
    assert moved(place, state, MOVES.index("right")) is None


def test_more_moves_than_a_turn_has_are_invalid_for_the_room_and_cut_by_the_style() -> None:
    env = playing(CORRIDOR)
    first, _ = env.restart()
    observation, reward, _, _, info = env.step("down; down; right; right")
    assert (observation, reward, info["invalid"]) == (first, 0.0, True)
    parsed = env.style.parse_action("<action>Down, down,right; RIGHT</action>")
    assert parsed.actions == ("down", "down", "right")
    assert parsed.text == "down; down; right"
    assert env.step(parsed.text)[4]["invalid"] is False


@pytest.mark.parametrize("answer", ["up", "<action></action>", "<action>up, jump</action>", "<action>up"])
def test_an_answer_without_moves_in_the_tag_is_invalid(answer: str) -> None:
    parsed = style(Options()).parse_action(answer)
    assert parsed.actions == ()
    assert parsed.invalid is True


def test_the_last_action_outside_the_thought_counts() -> None:
    answer = "<think><action>up</action></think><action>down</action> no: <action>left</action>"
    assert style(Options()).parse_action(answer).actions == ("left",)


@pytest.mark.parametrize("ends", [True, False])
def test_an_unsolvable_room_ends_the_episode_if_asked(ends: bool) -> None:
    env = playing(CORRIDOR, Options(end_when_unsolvable=ends))
    _, reward, terminated, _, info = env.step("right")
    assert not info["unsolvable"]
    assert reward == pytest.approx(-0.1)
    env = playing(["#######", "#_____#", "#_PX__#", "#___O_#"], Options(end_when_unsolvable=ends))
    _, _, terminated, _, info = env.step("right")
    assert info["unsolvable"] is False
    assert terminated is False
    _, _, terminated, _, info = env.step("right")  # into the column beside the wall, where no target is
    assert info["unsolvable"] is True
    assert info["success"] is False
    assert terminated is ends


def all_solvable(place: Room, start: State) -> bool:
    """Whether a win can be reached, by plain search over every state, without any pruning."""
    seen, waiting = {start}, [start]
    while waiting:
        state = waiting.pop()
        if solved(place, state):
            return True
        for direction in range(4):
            after = moved(place, state, direction)
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append(after)
    return False


@st.composite
def situations(draw: st.DrawFn) -> tuple[Room, State]:
    inner = draw(st.permutations(range(16)))
    boxes = draw(st.integers(1, 3))
    walls = set(inner[: draw(st.integers(0, 4))])
    free = [cell for cell in inner if cell not in walls]
    on = [(cell // 4 + 1) * 6 + cell % 4 + 1 for cell in free]
    signs = ["#"] * 36
    for cell in on:
        signs[cell] = "_"
    targets = draw(st.permutations(on))[:boxes]
    for cell in targets:
        signs[cell] = "O"
    for cell in on[:boxes]:
        signs[cell] = "√" if signs[cell] == "O" else "X"
    signs[on[boxes]] = "S" if signs[on[boxes]] == "O" else "P"
    return parse(["".join(signs[i : i + 6]) for i in range(0, 36, 6)])


@given(situations())
@settings(max_examples=250, deadline=None)
def test_solvability_agrees_with_search_without_pruning(situation: tuple[Room, State]) -> None:
    place, state = situation
    expected = all_solvable(place, state)
    assert solvable(place, state) is expected
    assert (shortest(place, state, 500) is not None) is expected


@given(situations())
@settings(max_examples=60, deadline=None)
def test_no_shorter_sequence_of_moves_solves(situation: tuple[Room, State]) -> None:
    place, state = situation
    path = shortest(place, state, 6)
    length = 6 if path is None else len(path)
    for shorter in product(range(4), repeat=min(length - 1, 5)) if length else ():
        at = state
        for direction in shorter:
            at = moved(place, at, direction) or at
            assert not solved(place, at)


def test_a_search_stops_at_its_budget() -> None:
    place, start = parse([*CORRIDOR[:-1], "#_____#", "#######"])
    far = parse(["#######", "#P____#", "#_X_X_#", "#_____#", "#_X___#", "#OOO__#", "#######"])
    assert solvable(place, start, budget=1) is True
    assert solvable(*far, budget=2) is None
    assert shortest(*far, limit=100, budget=2) is None
    assert shortest(*far, limit=100) is not None


@pytest.mark.parametrize(
    "options",
    [Options(), Options(boxes=1), Options(size=8, boxes=3), Options(min_solution=8, max_solution=9)],
)
@given(seed=st.integers(0, 2**17 - 1))
@settings(max_examples=15, deadline=None)
def test_every_room_is_solved_by_its_shortest_solution_within_bounds(options: Options, seed: int) -> None:
    made = puzzle(options, seed)
    assert options.min_solution <= len(made.solution) <= options.max_solution
    env = make(options)
    env.reset(options={"instance": seed})
    for number, direction in enumerate(made.solution, 1):
        _, _, over, _, info = env.step(MOVES[direction])
        assert info["unsolvable"] is False
        assert over == (number == len(made.solution))
    assert info["success"]
    assert made.start[1].bit_count() == made.room.targets.bit_count() == options.boxes


@given(seed=st.integers(0, 2**17 - 1))
@settings(max_examples=40, deadline=None)
def test_a_room_of_one_split_is_no_twin_of_one_of_the_other(seed: int) -> None:
    made = puzzle(Options(boxes=1), seed)
    key = split_key(made.room, made.start)
    assert held_out(key) is (seed >= 2**16)
    assert (seed in instances(Options(), "eval")) is (seed >= 2**16)
    picture = rows(made.room, made.start)
    turned = ["".join(column) for column in zip(*picture, strict=True)]
    assert split_key(*parse(turned)) == key
    assert split_key(*parse([row[::-1] for row in turned])) == key


def test_rooms_vary() -> None:
    made = [puzzle(Options(), seed) for seed in range(100)]
    assert len({split_key(one.room, one.start) for one in made}) > 90
    assert len({len(one.solution) for one in made}) >= 5


def test_bounds_that_no_room_meets_are_reported() -> None:
    with pytest.raises(ValueError, match="50 to 50 moves"):
        puzzle(Options(size=5, boxes=1, min_solution=50, max_solution=50), 0)


def test_the_account_lists_the_moves_of_each_turn() -> None:
    steps = (Step("a", "x", ("up", "left"), -0.2), Step("b", "?", (), 0.0, invalid=True))
    account = style(Options()).summarise(EpisodeRecord(0, steps, "Row 1: # #", False, "step_limit"))
    assert account.splitlines() == [
        "Your moves:",
        "Turn 1: up, left",
        "Turn 2: nothing",
        "The room at the end:",
        "Row 1: # #",
    ]
