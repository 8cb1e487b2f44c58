"""A person plays in the terminal; an environment is measured."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable

import pytest

from envs.memory import tree_mib
from envs.play import HELP, bench, play
from envs.registry import EnvSetupError
from envs.sokoban import Options
from envs.sokoban.generator import puzzle
from envs.sokoban.room import MOVES

BOARD = "(1,1)(1,2)(4,4)@(4,1)"


def typing(*answers: str) -> Callable[[str], str]:
    waiting = list(answers)

    def answer(_: str) -> str:
        if not waiting:
            raise EOFError
        return waiting.pop(0)

    return answer


def test_a_person_wins_a_board() -> None:
    out: list[str] = []
    assert play("minesweeper", {"size": 4}, BOARD, typing("(1,4)"), out.append) is True
    assert out[0].startswith("You play MineSweeper")
    assert out[1] == HELP
    assert out[-1] == "Won after 1 turns, reward 10"


def test_a_person_may_err_start_again_and_lose() -> None:
    out: list[str] = []
    answers = typing("what?", "(3,4)", "again", "<action>(4,4)</action>")
    assert play("minesweeper", {"size": 4}, BOARD, answers, out.append) is False
    assert "reward 0 (not a possible action)" in out
    assert out.count("reward 0.5") == 1
    assert out[-1] == "Lost after 1 turns, reward -0.1"
    boards = [line for line in out if line.startswith("Row 1")]
    assert boards[0] == boards[1] == boards[3] != boards[2]


@pytest.mark.parametrize("answers", [("quit",), ()])
def test_quit_and_the_end_of_the_input_leave(answers: tuple[str, ...]) -> None:
    out: list[str] = []
    assert play("sokoban", {}, None, typing(*answers), out.append) is False
    assert out[-1].startswith("Row 1: # #")


def test_a_room_is_solved_by_typing_its_moves() -> None:
    moves = [MOVES[direction] for direction in puzzle(Options(), 5).solution]
    turns = [", ".join(moves[i : i + 3]) for i in range(0, len(moves), 3)]
    assert play("sokoban", {}, 5, typing(*turns), lambda _: None) is True


def test_the_compact_format_can_be_played_too() -> None:
    out: list[str] = []
    options = {"size": 4, "format": "compact"}
    assert play("minesweeper", options, BOARD, typing("(1,4)"), out.append) is True
    assert out[0] == "A model sees: Try 1 now ???? 221? ..1? ..1? move:"


@pytest.mark.parametrize("name", ["minesweeper", "sokoban"])
def test_a_measurement_counts_what_it_played(name: str) -> None:
    measured = bench(name, {}, steps=50)
    assert measured["steps"] == 50
    assert 1 <= measured["episodes"] <= 50
    assert measured["steps_per_s"] == pytest.approx(1e6 / measured["step_us"])
    assert measured["reset_ms"] > measured["restart_ms"] > 0
    assert measured["peak_rss_mib"] > 10
    assert measured["peak_tree_mib"] > 10


def test_memory_is_that_of_all_that_was_started() -> None:
    code = "kept = bytearray(b'x' * 2**26); print(kept[0], flush=True); input()"
    before = tree_mib()
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"120\n"
        assert tree_mib() > before + 60
        assert 60 < tree_mib(child.pid) < before + 120
        child.communicate(b"\n", timeout=30)
    assert tree_mib(child.pid) == 0


def test_an_environment_without_listed_actions_names_random_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", "envs", "bench", "miniwob", "--seconds", "1"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = (line.split() for line in done.stdout.splitlines())
    measured = {key: float(value.replace(",", "")) for key, value in lines}
    assert measured["steps"] >= 1
    assert measured["peak_tree_mib"] > measured["peak_rss_mib"]


def test_a_person_plays_in_the_environments_own_python() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", "envs", "play", "miniwob", "--instance", "click-test/1"],
        input="click('99')\nclick('13')\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "[13] button 'Click Me!'" in done.stdout
    assert "reward 0 (not a possible action)" in done.stdout
    assert "Won after 2 turns, reward 1" in done.stdout


def test_a_measurement_takes_about_as_long_as_asked() -> None:
    ticks = itertools.count()
    looked_at = (tick * 1e-3 for tick in ticks)  # each look at the clock finds it a millisecond later
    short = bench("minesweeper", {"size": 4, "format": "compact"}, seconds=0.5, clock=lambda: next(looked_at))
    assert 500 <= next(ticks) < 600  # an episode that has begun is played to its end
    assert short["step_us"] == pytest.approx(1e3)
    assert short["reset_ms"] == pytest.approx(1) == short["restart_ms"]


def test_measuring_an_unknown_environment_says_so() -> None:
    with pytest.raises(EnvSetupError, match="unknown environment"):
        bench("chess", {}, seconds=0.1)


@pytest.mark.parametrize("written", ["(1,1)", "1 1", "1,1", "<action>(1,1)</action>"])
def test_a_person_may_write_a_cell_in_several_ways(written: str) -> None:
    said: list[str] = []
    answers = iter([written, "quit"])
    play("minesweeper", {"size": 4}, input_fn=lambda _: next(answers), output_fn=said.append)
    assert not any("not a possible action" in line for line in said)
