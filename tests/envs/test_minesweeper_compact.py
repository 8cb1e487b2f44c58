"""The compact format, word for word, its vocabulary and its demonstrator."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from envs.base import EpisodeMemory, EpisodeRecord, View
from envs.minesweeper import Options, instances
from envs.minesweeper.board import grid
from envs.minesweeper.compact import CompactStyle, renderer
from envs.minesweeper.demonstrator import demonstrations
from envs.minesweeper.env import MineSweeper
from envs.minesweeper.vocabulary import words
from envs.warmstart import Memory, Play, Row

SMALL = Options(size=4, mines=3, max_turns=6, format="compact", max_clicks=6)
STYLE = CompactStyle(4)
BOARD = "???? 2??? ???? ????"


def lost(final: str, index: int = 0) -> EpisodeRecord:
    return EpisodeRecord(index, (), final, False, "failure")


def test_the_first_attempt_shows_the_board_alone() -> None:
    assert STYLE.act_prompt(View(BOARD, episodes=3)) == "Try 1 now ???? 2??? ???? ???? move:"


def test_later_attempts_list_the_mines_that_were_hit() -> None:
    memory = (EpisodeMemory(0, False, "(3,2)"), EpisodeMemory(1, False, "(1,4)"))
    prompt = STYLE.act_prompt(View(BOARD, episode=2, episodes=3, memory=memory))
    assert prompt == "mines: (3,2) (1,4) Try 3 now ???? 2??? ???? ???? move:"


def test_a_memory_without_mines_says_none_and_no_memory_has_no_line() -> None:
    view = View(BOARD, episode=1, episodes=3, memory=(EpisodeMemory(0, False, ""),))
    assert STYLE.act_prompt(view) == "mines: none Try 2 now ???? 2??? ???? ???? move:"
    assert STYLE.act_prompt(View(BOARD, episode=1, episodes=3)) == "Try 2 now ???? 2??? ???? ???? move:"


def test_reflections_fill_the_same_line_without_repetition() -> None:
    noted = (EpisodeMemory(0, False, None, "(2,2)"), EpisodeMemory(1, False, None, "(2,2)"))
    assert STYLE.act_prompt(View(BOARD, episode=2, memory=noted)).startswith("mines: (2,2) Try 3 now")
    both = (EpisodeMemory(0, False, "(3,2)", "(2,2)"), EpisodeMemory(1, False, "(2,2)", ""))
    assert STYLE.act_prompt(View(BOARD, episode=2, memory=both)).startswith("mines: (3,2) (2,2) Try 3 now")


def test_hints_and_tips_add_their_cells_and_nothing_else() -> None:
    view = View(BOARD, tips=("mind (1,1) please", "and (9,9)"), hint="(4,4)")
    assert STYLE.act_prompt(view) == f"mines: (1,1) (4,4) Try 1 now {BOARD} move:"
    assert STYLE.act_prompt(View(BOARD, hint=None)) == STYLE.act_prompt(View(BOARD))


def test_the_reflection_prompt_shows_the_lost_board() -> None:
    final = "???? 2*?? ???? ????"
    prompt = STYLE.reflect_prompt(View(final), lost(final, index=1))
    assert prompt == "Try 2 lost ???? 2*?? ???? ???? Reflection:"


def test_the_summary_is_the_mine_that_was_hit_or_nothing() -> None:
    assert STYLE.summarise(lost("???? 2*?? ???? ????")) == "(2,2)"
    assert STYLE.summarise(lost("???? 2??? ???? ????")) == ""
    assert CompactStyle(6).summarise(lost("??? ??? ??? ??? 1?? ??? ??? ??* ??? ??? ??? ???")) == "(4,6)"


@pytest.mark.parametrize("answer", ["(3,2)", " (3,2)\n"])
def test_an_answer_is_one_cell_word(answer: str) -> None:
    assert STYLE.parse_action(answer).actions == ("(3,2)",)
    assert STYLE.parse_action(answer).invalid is False
    assert STYLE.parse_reflection(answer).text == "(3,2)"


@pytest.mark.parametrize("answer", ["", "now", "(5,1)", "(3,2) (1,1)", "3,2", "none", "????"])
def test_anything_else_is_invalid(answer: str) -> None:
    assert STYLE.parse_action(answer).actions == ()
    assert STYLE.parse_action(answer).invalid is True
    assert STYLE.parse_reflection(answer).text == ""
    assert STYLE.parse_reflection(answer).invalid is True


@pytest.mark.parametrize(("size", "expected"), [(2, 2), (4, 4), (5, 10), (6, 12), (8, 16)])
def test_a_board_is_one_word_a_row_or_two_for_long_rows(size: int, expected: int) -> None:
    written = renderer(size)(["?"] * size * size).split()
    assert len(written) == expected
    assert "".join(written) == "?" * size * size
    assert set(written) <= set(words(size))


def test_the_vocabulary_has_every_word_once() -> None:
    listed = words(4)
    assert len(listed) == len(set(listed)) == 7 + 8 + 16 + 5**4 + 4 * 5**3
    assert not any(word.count("*") > 1 for word in listed)
    assert not any(len(word.split()) != 1 for word in listed)


@pytest.mark.parametrize("memory", ["history", "reflection", "both"])
def test_demonstrations_use_only_the_vocabulary_and_answer_with_a_cell(memory: Memory) -> None:
    known = set(words(4))
    for prompt, answer in islice(demonstrations(SMALL, 0, Play(memory)), 3000):
        assert set(prompt.split()) <= known
        assert answer in grid(4).index


def test_demonstrations_depend_on_their_seed_alone() -> None:
    assert rows(5, "both", 500) == rows(5, "both", 500)
    assert rows(5, "both", 500) != rows(6, "both", 500)


def rows(seed: int, memory: Memory, count: int) -> list[Row]:
    return list(islice(demonstrations(SMALL, seed, Play(memory)), count))


def shown(prompt: str) -> str:
    return " ".join(prompt.split()[-5:-1])


def test_demonstrations_play_train_boards_only(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    reset = MineSweeper.reset

    def recording(self: MineSweeper, **given: Any) -> Any:
        played.append(given["options"]["instance"])
        return reset(self, **given)

    monkeypatch.setattr(MineSweeper, "reset", recording)
    rows(1, "history", 5000)
    assert len(set(played)) > 300
    assert set(played) <= set(instances(SMALL, "train"))


def test_demonstrations_click_hidden_cells() -> None:
    for prompt, answer in rows(1, "history", 5000):
        assert shown(prompt).replace(" ", "")[grid(4).index[answer]] == "?"


def test_a_reflecting_demonstrator_writes_a_note_after_each_lost_attempt_but_the_last() -> None:
    seen = correct = 0
    pending: list[str] = []
    for prompt, answer in rows(2, "reflection", 20_000):
        if "Reflection:" in prompt:
            assert prompt.split()[0] == "Try"
            assert prompt.split()[1] in "12"
            hit = STYLE.summarise(lost(shown(prompt)))
            pending.append(answer)
            if hit:
                seen += 1
                correct += hit == answer
        elif "Try 1 now" in prompt:
            pending = []
        else:
            noted = prompt[: prompt.index(" Try")].split()[1:]
            assert noted == list(dict.fromkeys(pending))
    # 0.3, and 1/16 of the rest by chance.
    assert correct / seen == pytest.approx(0.3 + 0.7 / 16, abs=0.03)


def test_half_of_the_demonstrated_trials_avoid_the_mines_they_list() -> None:
    again = total = 0
    for prompt, answer in rows(3, "history", 30_000):
        if prompt.startswith("mines: ("):
            total += 1
            again += answer in prompt[: prompt.index(" Try")].split()
    # A careless move hits a listed cell about once in eleven; careful trials never do.
    assert 0.01 < again / total < 0.07


def test_demonstrations_in_the_text_format_are_refused() -> None:
    with pytest.raises(ValueError, match="compact"):
        next(demonstrations(Options(), 0, Play()))
