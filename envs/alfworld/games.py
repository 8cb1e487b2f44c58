"""The games: where they lie, their ids and their types.

A game's id is its folder in the official layout, `SPLIT/GAME/TRIAL`. The folder has `game.tw-pddl`, which is
played, and `traj_data.json`, which tells the expert what the task is. An archive is unpacked once for all
processes, and its ids are written down once, so that nothing is searched or parsed to list thousands of
games. A folder of one's own is searched once in each process.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

from envs.alfworld.options import TaskType
from envs.data import data_file, made_once, unpacked
from envs.options import EnvSetupError

SPLITS = ("train", "valid_seen", "valid_unseen")
_ARCHIVES = {"full": "alfworld/alfworld_full_3827games.tar.xz", "sample24": "alfworld/sample24.tar.xz"}
_FOLDERS = ("json_2.1.1", "sample24/json_2.1.1", ".")
_TYPES: dict[str, TaskType] = {
    "pick_and_place_simple": "pick",
    "look_at_obj_in_light": "look",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "pick2",
}

Index = dict[str, tuple[str, ...]]
"""The sorted ids of each split."""


def source(games: str) -> Path:
    """The archive or folder of these games. Raises `EnvSetupError` saying how to get it if it isn't there."""
    if games in _ARCHIVES:
        return data_file("alfworld", _ARCHIVES[games])
    folder = Path(games).expanduser()
    if not folder.is_dir():
        raise EnvSetupError(f"option games={games!r}: must be {', '.join(_ARCHIVES)} or a folder of games")
    return folder


def ids(games: str, split: str) -> tuple[str, ...]:
    """The ids of an official split, sorted."""
    return _index(source(games))[split]


def game_file(games: str, game: object) -> Path:
    """The file of a game. Raises `EnvSetupError` naming the id if there is no such game."""
    place = source(games)
    index = _index(place)
    if not isinstance(game, str) or game not in index.get(game.partition("/")[0], ()):
        example = next((ids[0] for ids in index.values() if ids), "none there")
        raise EnvSetupError(
            f"alfworld has no instance {game!r} among games={games!r}: ids are SPLIT/GAME/TRIAL, as {example}"
        )
    return _root(place) / game / "game.tw-pddl"


def task_type(game: str) -> TaskType:
    """The type of a game, which its id tells."""
    return _TYPES[game.split("/")[1].partition("-")[0]]


@functools.cache
def _root(place: Path) -> Path:
    """The folder in which the splits' folders lie."""
    folder = place if place.is_dir() else unpacked(place)
    for inner in _FOLDERS:
        if any((folder / inner / split).is_dir() for split in SPLITS):
            return folder / inner
    raise EnvSetupError(f"alfworld: {place} has none of the folders {', '.join(SPLITS)}")


@functools.cache
def _index(place: Path) -> Index:
    if place.is_dir():
        return _playable(_root(place))

    def write(into: Path) -> None:
        (into / "index.json").write_text(json.dumps(_playable(_root(place))))

    made = made_once(f"{place.name.split('.')[0]}-index", place, write)
    index = json.loads((made / "index.json").read_text())
    return {split: tuple(games) for split, games in index.items()}


def _playable(root: Path) -> Index:
    return {
        split: tuple(
            sorted(
                file.parent.relative_to(root).as_posix()
                for file in root.glob(f"{split}/*/*/game.tw-pddl")
                if _is_playable(file)
            )
        )
        for split in SPLITS
    }


def _is_playable(file: Path) -> bool:
    """Whether ALFWorld counts it among its games: nothing to slice, and known to be solvable."""
    name = file.parent.parent.name
    known = name.partition("-")[0] in _TYPES and "Sliced" not in name and "movable" not in name
    return known and bool(json.loads(file.read_text()).get("solvable"))
