"""Boxoban's levels as rooms of Sokoban."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path
from typing import Any

import pytest

from envs import registry
from envs.base import View
from envs.data import data_dir
from envs.options import EnvSetupError
from envs.sokoban import Options, make
from envs.sokoban.boxoban import SOLVER_BUDGET, Levels, level
from envs.sokoban.room import MOVES, moved, rows
from envs.sokoban.solver import shortest, solvable
from tests.envs import contract

BOXOBAN = {"source": "boxoban"}


@pytest.mark.parametrize(
    "name", ["unfiltered_train_000", "unfiltered_test_000", "medium_valid_000", "hard_000"]
)
def test_every_level_reads_as_it_is_published(name: str) -> None:
    text = gzip.decompress((data_dir() / "boxoban" / f"{name}.txt.gz").read_bytes()).decode()
    blocks = re.split(r"; \d+\n", text)[1:]
    assert len(blocks) == 1000
    for index, block in enumerate(blocks):
        made = level(f"boxoban/{name}/{index}")
        shown = "\n".join(rows(made.room, made.start))
        published = block.strip("\n").translate(str.maketrans(" .$*@+", "_OX√PS"))
        assert shown == published
        assert made.start[1].bit_count() == made.room.targets.bit_count() == 4
        if index < 10:
            assert solvable(made.room, made.start, SOLVER_BUDGET) is not False


def test_splits_are_the_published_ones() -> None:
    train = registry.instances("sokoban", BOXOBAN, "train")
    held = registry.instances("sokoban", BOXOBAN, "eval")
    assert (train[0], train[-1]) == ("boxoban/unfiltered_train_000/0", "boxoban/unfiltered_train_000/999")
    assert held[17] == "boxoban/unfiltered_test_000/17"
    for name, file in [("medium/valid", "medium_valid_000"), ("hard", "hard_000")]:
        assert (
            registry.instances("sokoban", {**BOXOBAN, "eval_levels": name}, "eval")[5] == f"boxoban/{file}/5"
        )


def test_addresses_run_on_over_files() -> None:
    some = Levels([("a_000", 3), ("a_001", 2)])
    assert list(some) == [f"boxoban/a_000/{i}" for i in range(3)] + [f"boxoban/a_001/{i}" for i in range(2)]
    assert some[-1] == "boxoban/a_001/1"
    assert some[2:4] == ["boxoban/a_000/2", "boxoban/a_001/0"]
    with pytest.raises(IndexError):
        some[5]


def test_a_set_that_is_not_there_says_how_to_get_it() -> None:
    with pytest.raises(EnvSetupError, match="medium_train_000.*agentmem data fetch sokoban"):
        registry.instances("sokoban", {**BOXOBAN, "train_levels": "medium/train"}, "train")


@pytest.mark.parametrize(
    "instance",
    [0, "x", "boxoban/none_000/0", "boxoban/hard_000/1000", "boxoban/hard_000/-1", "boxoban/../x/0"],
)
def test_an_instance_that_does_not_exist_is_named(instance: Any) -> None:
    with pytest.raises(EnvSetupError, match=re.escape(repr(instance))):
        make(Options(source="boxoban")).reset(options={"instance": instance})


def test_a_broken_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "boxoban").mkdir()
    monkeypatch.setenv("AGENTMEM_DATA", str(tmp_path))
    (tmp_path / "boxoban" / "hard_000.txt.gz").write_bytes(gzip.compress(b"; 0\n####\n#@ #\n####\n"))
    with pytest.raises(EnvSetupError, match=r"hard_000.*level 0"):
        level("boxoban/hard_000/0")
    (tmp_path / "boxoban" / "hard_001.txt.gz").write_bytes(b"no archive")
    with pytest.raises(EnvSetupError, match=r"hard_001.*fetch it again"):
        level("boxoban/hard_001/0")


def test_a_level_is_played_to_its_end() -> None:
    env = make(Options(source="boxoban", max_moves_per_turn=100))
    # The first level that a plain search solves within a moderate number of states.
    for instance in registry.instances("sokoban", BOXOBAN, "train"):
        made = level(instance)
        path = shortest(made.room, made.start, 60, budget=5_000)
        if path:
            break
    assert path
    action = "; ".join(MOVES[direction] for direction in path)
    trace = contract.check_restart(env, instance, [action])
    assert trace[-1][4] is True
    contract.check_hostile(env, instance, [action])


def test_the_rules_tell_the_size_of_the_room() -> None:
    text = str(registry.style("sokoban", BOXOBAN).act_prompt(View("?")))
    assert "10 rows and 10 columns" in text


def test_random_play_never_waits_for_the_solver() -> None:
    """A search visits at most `SOLVER_BUDGET` states and their neighbours, whatever the room."""
    rng = random.Random(0)
    for index in range(5):
        made = level(f"boxoban/hard_000/{index}")
        state = made.start
        for _ in range(30):
            state = moved(made.room, state, rng.randrange(4)) or state
        assert solvable(made.room, state, budget=SOLVER_BUDGET) in (True, False, None)
