"""Scout: what looking costs and tells, its two formats, its split, its demonstrator."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest

from envs import registry
from envs.base import EpisodeMemory, EpisodeRecord, Step, View
from envs.options import EnvSetupError
from envs.scout import Options, instances, make, style, warm_start
from envs.scout.compact import CompactStyle, vocabulary
from envs.scout.demonstrator import demonstrations
from envs.scout.env import LOOK, Scout
from envs.scout.field import beside, cell_words, field_of, held_out, sightings, split_key
from envs.scout.players import play_trial
from envs.warmstart import Memory, Play, Row
from tests.envs.contract import check_determinism, check_hostile, check_restart

SMALL = Options(format="compact")
STYLE = CompactStyle(4)
FIELD = "tree@(2,3) rock@(1,1) well@(4,2)"
CELLS = cell_words(4)


def started(options: Options = SMALL, instance: int = 0) -> tuple[Scout, str]:
    env = make(options)
    return env, env.reset(options={"instance": instance})[0]


def lost(final: str, index: int = 0) -> EpisodeRecord:
    return EpisodeRecord(index, (), final, False, "failure")


# --- the game ---


def test_looking_ends_the_attempt_and_tells_beside_which_landmark_the_treasure_lies() -> None:
    for instance in range(50):
        env, first = started(instance=instance)
        observation, reward, over, _, info = env.step(LOOK)
        assert (reward, over, info["success"], info["invalid"]) == (0.0, True, False, False)
        side, name = observation.removeprefix(first).split()[0].split("-of-")
        at = CELLS.index(next(w for w in first.split() if w.startswith(name)).split("@")[1])
        assert beside(4, at, side) == env.field.treasure


def test_digging_at_the_treasure_wins_and_anywhere_else_uses_up_a_dig() -> None:
    env, first = started(Options(format="compact", digs=2))
    treasure = env.field.treasure
    others = [c for c in range(16) if c not in (treasure, *env.field.landmarks)]
    observation, reward, over, _, info = env.step(CELLS[others[0]])
    assert (observation, reward, over) == (f"{first} {CELLS[others[0]]}", 0.0, False)
    again, _, over, _, _ = env.step(CELLS[others[0]])
    assert (again, over) == (observation, True)
    env.restart()
    observation, reward, over, _, info = env.step(CELLS[treasure])
    assert (reward, over, info["success"]) == (1.0, True, True)
    assert observation == f"{first} {CELLS[treasure]} found"


def test_a_look_is_the_last_thing_of_a_day_whatever_was_dug_before() -> None:
    env, _ = started(Options(format="compact", digs=3))
    other = next(c for c in range(16) if c not in (env.field.treasure, *env.field.landmarks))
    assert env.step(CELLS[other])[2] is False
    assert env.step(LOOK)[2] is True
    _, _, over, _, info = env.step(CELLS[env.field.treasure])
    assert (over, info["invalid"], info["success"]) == (True, True, False)


@pytest.mark.parametrize("form", ["compact", "text"])
def test_keeps_the_contract(form: str) -> None:
    options = {"format": form, "digs": 2}
    env = registry.make("scout", options)
    for actions in (["(1,1)", "(2,2)"], ["(1,1)", LOOK], [LOOK]):
        check_restart(env, 5, actions)
        check_hostile(env, 5, actions)
    check_determinism("scout", options, 5, ["(1,1)", LOOK])


def test_treasures_lie_beside_a_landmark_and_never_under_one() -> None:
    for instance in (*range(300), *range(2**16, 2**16 + 300)):
        field = field_of(SMALL, instance)
        assert field.treasure in sightings(4, field.landmarks)
        assert field.treasure not in field.landmarks
        assert len(set(field.landmarks)) == 3


def test_a_cell_beside_two_landmarks_is_called_after_the_first() -> None:
    tree, rock = CELLS.index("(2,2)"), CELLS.index("(2,4)")
    assert sightings(4, (tree, rock))[CELLS.index("(2,3)")] == "east-of-tree"
    assert sightings(4, (rock, tree))[CELLS.index("(2,3)")] == "west-of-tree"


# --- the split ---


def turned(cell: int, size: int = 4) -> int:
    row, col = divmod(cell, size)
    return col * size + size - 1 - row


def flipped(cell: int, size: int = 4) -> int:
    row, col = divmod(cell, size)
    return col * size + row


def test_a_layout_and_its_rotations_and_reflections_are_on_one_side_of_the_split() -> None:
    rng = random.Random(0)
    for _ in range(200):
        layout = tuple(rng.sample(range(16), 3))
        images = [layout]
        for _ in range(3):
            images.append(tuple(map(turned, images[-1])))
        images += [tuple(map(flipped, image)) for image in images]
        assert len({split_key(4, image) for image in images}) == 1


def test_no_layout_of_a_split_is_in_the_other() -> None:
    train, held = (
        {split_key(4, field_of(SMALL, i).landmarks) for i in instances(SMALL, split)[:4000]}
        for split in ("train", "eval")
    )
    assert len(train) > 200
    assert len(held) > 50
    assert not train & held
    assert all(map(held_out, held))


def test_a_split_without_layouts_is_refused_in_one_line() -> None:
    # None of the ten classes of one landmark on 8 x 8 is held out.
    assert field_of(Options(size=8, landmarks=1), 0)
    with pytest.raises(EnvSetupError, match="size=8, landmarks=1 for seed 65536"):
        field_of(Options(size=8, landmarks=1), 2**16)


# --- the compact format ---


def test_the_first_attempt_shows_the_field_alone() -> None:
    assert STYLE.act_prompt(View(FIELD, episodes=3)) == f"Try 1 now {FIELD} move:"


def test_later_attempts_list_holes_and_sightings() -> None:
    memory = (EpisodeMemory(0, False, "(3,2)"), EpisodeMemory(1, False, "east-of-tree"))
    prompt = STYLE.act_prompt(View(FIELD, episode=2, episodes=3, memory=memory))
    assert prompt == f"known: (3,2) east-of-tree Try 3 now {FIELD} move:"
    empty = (EpisodeMemory(0, False, ""),)
    assert STYLE.act_prompt(View(FIELD, episode=1, memory=empty)) == f"known: none Try 2 now {FIELD} move:"
    noted = (EpisodeMemory(0, False, "(3,2)", "(3,2)"),)
    assert STYLE.act_prompt(View(FIELD, episode=1, memory=noted)).startswith("known: (3,2) Try")


def test_hints_and_tips_add_their_words_and_nothing_else() -> None:
    view = View(FIELD, tips=("try (1,1) first", "and (9,9)"), hint="east-of-tree")
    assert STYLE.act_prompt(view) == f"known: (1,1) east-of-tree Try 1 now {FIELD} move:"


def test_the_summary_is_what_was_dug_and_seen() -> None:
    assert STYLE.summarise(lost(f"{FIELD} (1,2) (3,3)")) == "(1,2) (3,3)"
    assert STYLE.summarise(lost(f"{FIELD} (1,2) north-of-well")) == "(1,2) north-of-well"
    assert STYLE.summarise(lost(FIELD)) == ""


@pytest.mark.parametrize("answer", ["(3,2)", " look\n"])
def test_an_answer_is_one_cell_or_look(answer: str) -> None:
    assert STYLE.parse_action(answer).actions == (answer.strip(),)


@pytest.mark.parametrize("answer", ["", "now", "(5,1)", "(3,2) look", "east-of-tree", "none"])
def test_anything_else_is_invalid(answer: str) -> None:
    assert STYLE.parse_action(answer).actions == ()
    assert STYLE.parse_action(answer).invalid is True


def test_a_reflection_is_one_word_that_can_be_remembered() -> None:
    assert STYLE.parse_reflection("east-of-tree").text == "east-of-tree"
    assert STYLE.parse_reflection("(1,1)").text == "(1,1)"
    assert STYLE.parse_reflection("look").invalid is True
    prompt = STYLE.reflect_prompt(View(FIELD), lost(f"{FIELD} east-of-tree", index=1))
    assert prompt == f"Try 2 ended {FIELD} east-of-tree Note:"


# --- the text format ---


def test_the_map_shows_landmarks_holes_and_what_was_seen() -> None:
    env, first = started(Options(digs=2, history_turns=3), instance=7)
    assert [first.split().count(sign) for sign in "TRWBo"] == [1, 1, 1, 0, 0]
    hole = next(c for c in range(16) if c not in (env.field.treasure, *env.field.landmarks))
    assert env.step(CELLS[hole])[0].split().count("o") == 1
    last = env.step(LOOK)[0].splitlines()[-1]
    name = next(n for n in ("tree", "rock", "well") if f"of the {n}." in last)
    assert sightings(4, env.field.landmarks)[env.field.treasure].endswith(name)


def test_the_account_names_digs_and_the_look() -> None:
    steps = (
        Step("", "", ("(1,1)",), 0.0),
        Step("", "", ("(9,9)",), 0.0, invalid=True),
        Step("", "", ("look",), 0.0),
    )
    text = style(Options()).summarise(EpisodeRecord(0, steps, "MAP", False, "failure"))
    assert text == "You dug at (1,1).\nYou climbed the tower to look.\nThe field at the end:\nMAP"


def test_an_action_stands_in_the_last_tag() -> None:
    chat = style(Options())
    assert chat.parse_action("<action>look</action> or <action>( 2, 1 )</action>").actions == ("(2,1)",)
    assert chat.parse_action("look").invalid is True


# --- the demonstrator ---


def rows(count: int, memory: Memory = "history", seed: int = 0) -> list[Row]:
    return list(islice(demonstrations(SMALL, seed, Play(memory)), count))


@pytest.mark.parametrize("memory", ["history", "reflection", "both"])
def test_demonstrations_use_only_the_vocabulary_and_depend_on_their_seed_alone(memory: Memory) -> None:
    start = warm_start(SMALL)
    assert start is not None
    known = set(start.vocabulary)
    assert len(known) == len(start.vocabulary) == len(vocabulary(SMALL))
    shown = rows(3000, memory)
    assert all({*prompt.split(), answer} <= known for prompt, answer in shown)
    assert shown == rows(3000, memory) != rows(3000, memory, seed=1)


def test_demonstrations_play_train_fields_only(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    reset = Scout.reset

    def recording(self: Scout, **given: Any) -> Any:
        played.append(given["options"]["instance"])
        return reset(self, **given)

    monkeypatch.setattr(Scout, "reset", recording)
    rows(3000)
    assert len(set(played)) > 500
    assert set(played) <= set(instances(SMALL, "train"))


def test_demonstrations_look_rarely_and_mostly_heed_what_was_seen() -> None:
    looks = blind = heeded = seen = 0
    for prompt, answer in rows(30_000):
        note, _, field = prompt.rpartition("Try ")
        words = [word for word in note.split() if "-of-" in word]
        if not words:
            blind += 1
            looks += answer == LOOK
            continue
        side, name = words[0].split("-of-")
        at = CELLS.index(next(w for w in field.split() if w.startswith(f"{name}@")).split("@")[1])
        target = beside(4, at, side)
        assert target is not None
        seen += 1
        heeded += answer == CELLS[target]
    assert looks / blind == pytest.approx(0.05, abs=0.01)
    assert heeded / seen == pytest.approx(0.8 + 0.2 / 13, abs=0.03)


def test_the_text_format_has_no_word_level_warm_start() -> None:
    assert registry.warm_start("scout", {}) is None
    assert registry.warm_start("sokoban", {}) is None


# --- the point of it ---


def test_looking_first_loses_the_first_attempt_and_wins_the_second() -> None:
    env, rng = make(SMALL), random.Random(0)
    won: dict[str, list[int | None]] = {
        skill: [play_trial(env, i, skill, rng, attempts=3) for i in instances(SMALL, "eval")[:400]]
        for skill in ("random", "beside", "scout")
    }
    assert set(won["scout"]) == {1}
    at_all = {skill: sum(w is not None for w in found) / 400 for skill, found in won.items()}
    assert 0.15 < at_all["random"] < at_all["beside"] < 0.55
