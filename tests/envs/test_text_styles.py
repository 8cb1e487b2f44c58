"""What a language model reads and what is understood of its answers (MineSweeper's text format)."""

from __future__ import annotations

import pytest

from envs.base import EpisodeRecord, Message, Step, View
from envs.minesweeper import Options, make, style

STYLE = style(Options())
FIRST = "Row 1: ? 1 .\nRow 2: ? 1 .\nRow 3: ? 1 ."


def contents(view: View) -> list[str]:
    prompt = STYLE.act_prompt(view)
    assert not isinstance(prompt, str)
    return [message.content for message in prompt]


def test_the_board_reads_row_by_row() -> None:
    env = make(Options(size=4))
    observation, _ = env.reset(options={"instance": "(1,1)(1,2)(4,4)@(4,1)"})
    assert observation.splitlines()[1:3] == ["Row 2: 2 2 1 ?", "Row 3: . . 1 ?"]


def test_the_rules_name_size_and_mines() -> None:
    rules = contents(View(FIRST))[0]
    assert "6 rows and 6 columns" in rules
    assert "3 mines" in rules
    assert "<action>(row,column)</action>" in rules
    one = style(Options(mines=1)).act_prompt(View(FIRST))[0]
    assert isinstance(one, Message)
    assert "hides 1 mine." in one.content


@pytest.mark.parametrize(
    ("answer", "cell"),
    [
        ("<action>(3,2)</action>", "(3,2)"),
        ("The corner is safe.\n<action> ( 1 , 6 ) </action>", "(1,6)"),
        ("<action>(1,1)</action> or rather <action>(2,2)</action>", "(2,2)"),
        ("<think><action>(1,1)</action></think>\n<action>(4,4)</action>", "(4,4)"),
    ],
)
def test_the_cell_is_read_from_the_last_action_tag(answer: str, cell: str) -> None:
    assert STYLE.parse_action(answer).actions == (cell,)


@pytest.mark.parametrize(
    "answer", ["(3,2)", "<action>(7,1)</action>", "<action>3,2</action>", "<action>(1,1)"]
)
def test_an_answer_without_a_cell_of_the_board_in_the_tag_is_invalid(answer: str) -> None:
    assert STYLE.parse_action(answer).invalid is True


def test_the_next_message_says_what_came_of_a_lost_turn() -> None:
    unread = Step(FIRST, "hm", (), 0.0, invalid=True)
    assert "named no cell" in contents(View(FIRST, (unread,)))[-1]
    small = style(Options(size=3))
    again = Step(FIRST, "<action>(1,2)</action>", ("(1,2)",), -1.0)
    prompt = small.act_prompt(View(FIRST, (again,)))
    assert isinstance(prompt[-1], Message)
    assert "(1,2) was open already" in prompt[-1].content
    fresh = Step(FIRST, "<action>(1,1)</action>", ("(1,1)",), 0.5)
    assert small.act_prompt(View(FIRST, (fresh,)))[-1] == Message("user", f"The board:\n{FIRST}")


def test_attempts_are_counted_only_where_there_are_several() -> None:
    assert "attempt 2 of 3" in contents(View(FIRST, episode=1, episodes=3))[1]
    assert "attempt" not in contents(View(FIRST))[1]


def test_an_instance_with_a_task_text_shows_it() -> None:
    assert contents(View(FIRST, instruction="Be quick."))[1].startswith("Be quick.")


@pytest.mark.parametrize(
    ("stop", "words"), [("failure", "you lost"), ("step_limit", "out of turns"), ("token_limit", "cut short")]
)
def test_the_question_for_a_reflection_says_how_the_attempt_ended(stop: str, words: str) -> None:
    record = EpisodeRecord(0, (Step(FIRST, "a", ("(1,1)",), 0.0),), FIRST, False, stop)
    last = STYLE.reflect_prompt(View(FIRST), record)[-1]
    assert isinstance(last, Message)
    assert words in last.content
    assert "<remark>" in last.content


def test_the_account_names_the_mine() -> None:
    final = "Row 1: * 1 .\nRow 2: ? 1 .\nRow 3: ? 1 ."
    steps = (Step(FIRST, "x", ("(1,2)",), -1.0), Step(FIRST, "x", ("(1,1)",), -0.1))
    account = STYLE.summarise(EpisodeRecord(0, steps, final, False, "failure"))
    assert "You opened: (1,2), (1,1)." in account
    assert "(1,1) was a mine." in account
    assert "was a mine" not in STYLE.summarise(EpisodeRecord(0, steps[:1], FIRST, False, "step_limit"))


def test_the_question_for_a_reflection_extends_the_last_prompt_of_a_long_attempt_too() -> None:
    short = style(Options(history_turns=2))
    steps = tuple(Step(FIRST, f"answer {turn}", (), 0.0, invalid=True) for turn in range(6))
    view = View(FIRST, steps[:-1])
    last = short.act_prompt(view)
    asked = short.reflect_prompt(view, EpisodeRecord(0, steps, FIRST, False, "step_limit"))
    assert asked[: len(last)] == last
    assert asked[len(last)] == Message("assistant", "answer 5")
    assert len(asked) == len(last) + 2


def test_a_tip_is_asked_for_where_a_reflection_would_be_and_goes_on_from_the_episode() -> None:
    steps = (Step(FIRST, "<action>(1,2)</action>", ("(1,2)",), -1.0),)
    record = EpisodeRecord(0, steps, FIRST, success=False, stop="failure")
    tip, reflection = STYLE.tip_prompt(View(FIRST), record), STYLE.reflect_prompt(View(FIRST), record)
    assert tip[:-1] == reflection[:-1]
    last = tip[-1]
    assert isinstance(last, Message)
    assert "fewer than 100 words" in last.content
    assert tip != reflection


@pytest.mark.parametrize(
    ("answer", "tip"),
    [
        ("Open corners\nlast.", "Open corners last."),
        ("<think>What did I learn?</think>\n\nMines sit in corners.\n\nMore.", "Mines sit in corners."),
        ("a" * 5000, "a" * STYLE.max_tip_chars),
    ],
)
def test_a_tip_is_the_first_paragraph_in_one_line_and_cut(answer: str, tip: str) -> None:
    parsed = STYLE.parse_tip(answer)
    assert (parsed.text, parsed.invalid) == (tip, False)


def test_an_empty_tip_is_invalid() -> None:
    assert STYLE.parse_tip("<think>Nothing.</think> \n").invalid is True
