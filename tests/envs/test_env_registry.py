"""The registry's errors are one clear line each."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from envs import registry
from envs.registry import EnvSetupError


def message(error: pytest.ExceptionInfo[EnvSetupError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_an_unknown_environment_lists_the_known_ones() -> None:
    with pytest.raises(EnvSetupError) as error:
        registry.make("chess", {})
    assert "'chess'" in message(error)
    assert all(name in message(error) for name in registry.ENVIRONMENTS)


def test_an_unknown_option_names_key_value_and_the_allowed_ones() -> None:
    with pytest.raises(EnvSetupError) as error:
        registry.validate_options("minesweeper", {"sizes": 4})
    for part in ("minesweeper", "sizes=4", "size", "mines", "rewards"):
        assert part in message(error)


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("minesweeper", {"size": "4"}, ["size='4'", "whole number"]),
        ("minesweeper", {"size": True}, ["size=True", "whole number"]),
        ("minesweeper", {"size": 4, "mines": 15}, ["mines=15", "1 to 14"]),
        ("minesweeper", {"format": "html"}, ["format='html'", "compact, text"]),
        ("minesweeper", {"format": "compact", "size": 9}, ["size=9", "compact"]),
        ("minesweeper", {"rewards": {"won": 1}}, ["rewards.won=1", "win"]),
        ("minesweeper", {"rewards": {"win": "a lot"}}, ["rewards.win='a lot'", "number"]),
        ("minesweeper", {"rewards": 3}, ["rewards=3", "mapping"]),
        ("minesweeper", {"min_clicks": 4, "max_clicks": 3}, ["max_clicks=3", "min_clicks=4"]),
        ("sokoban", {"boxes": 0}, ["boxes=0"]),
        ("sokoban", {"end_when_unsolvable": 1}, ["end_when_unsolvable=1", "bool"]),
        ("sokoban", {"min_solution": 5, "max_solution": 4}, ["max_solution=4", "min_solution=5"]),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(
    name: str, options: dict[str, object], parts: list[str]
) -> None:
    with pytest.raises(EnvSetupError) as error:
        registry.validate_options(name, options)
    for part in [name, *parts]:
        assert part in message(error)


def test_an_unknown_split_lists_the_known_ones() -> None:
    with pytest.raises(EnvSetupError) as error:
        registry.instances("sokoban", {}, "test")
    assert "'test'" in message(error)
    assert "train, eval" in message(error)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(
        registry.spec("sokoban"), name="rooms", requires=("no_such_package_at_all",), extra="rooms"
    )
    monkeypatch.setitem(registry.ENVIRONMENTS, "rooms", entry)
    with pytest.raises(EnvSetupError) as error:
        registry.make("rooms", {})
    assert "no_such_package_at_all" in message(error)
    assert "agentmem[rooms]" in message(error)
    (line,) = registry.check("rooms")
    assert "agentmem[rooms]" in line


def test_nothing_is_missing_for_the_games() -> None:
    assert registry.check("minesweeper") == []
    assert registry.check("sokoban") == []


def test_an_environment_is_imported_only_when_it_is_used() -> None:
    code = (
        "import sys, envs.registry; print([m for m in sys.modules if 'sokoban' in m or 'minesweeper' in m])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


def test_defaults_are_the_published_settings() -> None:
    mines = registry.validate_options("minesweeper", {})
    assert (mines.size, mines.mines, mines.max_turns, mines.format) == (6, 3, 7, "text")
    rewards = mines.rewards
    assert (rewards.win, rewards.cell, rewards.cascade) == (10, 0.5, 2)
    assert (rewards.mine, rewards.no_effect) == (-0.1, -1)
    rooms = registry.validate_options("sokoban", {})
    assert (rooms.size, rooms.boxes, rooms.max_moves_per_turn, rooms.max_turns) == (6, 2, 3, 7)
    rewards = rooms.rewards
    assert (rewards.move, rewards.box_on, rewards.box_off, rewards.solved) == (-0.1, 1, -1, 10)
