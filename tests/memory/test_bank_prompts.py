"""What the writer is asked, and what is made of its answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.chat.answer import Answer, Messages
from agentmem.memory.bank.grouping import Job, by_task, plan
from agentmem.memory.bank.prompts import (
    LONGEST_TOKEN,
    decisive_steps,
    hint_in,
    hint_prompt,
    said,
    zoom_prompt,
)
from agentmem.sampling import FinishReason
from tests.memory.banks import lost, traces, trial, won


def pair(steps: int = 4) -> Job:
    way = [f"step {n}" for n in range(steps)]
    (job,) = plan(by_task(traces(trial("t", 1, lost(*way, "down"), won(*way, "up", index=1)))))
    return job


def anything(messages: Messages) -> bool:
    return True


def shorter_than(characters: int) -> object:
    return lambda messages: sum(len(text) for _, text in messages) < characters


def test_the_zoom_question_shows_the_task_and_every_step_of_both() -> None:
    messages = zoom_prompt(pair(), anything)
    assert messages is not None
    (_, system), (role, text) = messages
    assert role == "user"
    assert "step by step" in system
    assert "The task:\nLeave the house." in text
    assert "Record 1: reached the goal\n" in text
    assert "Record 2: didn't reach the goal (failure)" in text
    assert text.count("did: step 3") == 2
    assert "At the end it saw: the garden" in text


def test_the_hint_question_shows_decisive_steps_in_full_and_others_in_short() -> None:
    job = pair()
    long = tuple(replace_observations(trace, f"{n}" * 400) for n, trace in enumerate(job.traces))
    job = replace(job, traces=long)
    notes = "record 2, step 5: it turned down"
    whole, zoomed = hint_prompt(job, None, 100, anything), hint_prompt(job, notes, 100, anything)
    assert whole is not None
    assert zoomed is not None
    assert notes in zoomed[1][1]
    assert "steps that decided it" not in whole[1][1]
    assert whole[1][1].count("1" * 400) == 5
    assert zoomed[1][1].count("1" * 400) == 1
    assert "At most 60 words" in zoomed[1][1]


def replace_observations(trace, text):  # type: ignore[no-untyped-def]
    import msgspec

    steps = tuple(msgspec.structs.replace(step, observation=text) for step in trace.steps)
    return msgspec.structs.replace(trace, steps=steps)


def test_long_traces_are_shortened_until_they_fit_and_say_what_is_left_out() -> None:
    job = pair(300)
    fitted = zoom_prompt(job, shorter_than(6000))  # type: ignore[arg-type]
    assert fitted is not None
    assert "are left out)" in fitted[1][1]
    assert "Step 1 saw" in fitted[1][1]
    assert "Step 301 saw" in fitted[1][1]
    assert zoom_prompt(job, shorter_than(500)) is None  # type: ignore[arg-type]
    decisive = hint_prompt(job, "record 1, step 150: there", 100, shorter_than(6000))  # type: ignore[arg-type]
    assert decisive is not None
    assert "Step 150 saw" in decisive[1][1]


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        ("record 1, step 3: a\nrecord 2, step 1: b", {(1, 3), (2, 1)}),
        ("**Record 2 - Step 2** and step 4", {(2, 2), (2, 4)}),
        ("Step #1 mattered", {(1, 1)}),
        ("record 3, step 1; record 1, step 9; record 0, step 0", set()),
        ("no step was decisive", set()),
        ("missteps 1 and footstep 2", set()),
        ("", set()),
    ],
)
def test_decisive_steps_are_read_as_far_as_they_exist(answer: str, steps: set[tuple[int, int]]) -> None:
    assert decisive_steps(pair(), answer) == steps


def test_a_flood_of_decisive_steps_is_cut_at_five() -> None:
    flood = "\n".join(f"record 1, step {n}" for n in range(1, 300))
    assert len(decisive_steps(pair(400), flood)) == 5


@pytest.mark.parametrize(
    ("text", "finish", "hint"),
    [
        ("Go right. Then up.", "stop", ("Go right. Then up.", False)),
        ("Go right. Then up", "stop", ("Go right. Then up", False)),
        ("Hint: Go right.", "stop", ("Go right.", False)),
        ("**Hint:** Go right.", "stop", ("Go right.", False)),
        ('"Go right."', "stop", ("Go right.", False)),
        ("<think>hm. well.</think>\n\nGo right.", "stop", ("Go right.", False)),
        ("<think>hm. well. on and on.", "length", ("", True)),
        ("Go right. Then u", "length", ("Go right.", True)),
        ("go right and then up and th", "length", ("", True)),
        ("  ", "stop", ("", False)),
    ],
)
def test_a_hint_is_read_and_one_that_reached_its_limit_ends_with_a_full_sentence(
    text: str, finish: str, hint: tuple[str, bool]
) -> None:
    assert hint_in(Answer(text=text, finish_reason=FinishReason(finish)), 50) == hint


@given(st.text(), st.integers(1, 20))
def test_no_hint_is_longer_than_its_limit_allows(text: str, max_tokens: int) -> None:
    hint, cut = hint_in(Answer(text=text), max_tokens)
    assert len(hint) <= max_tokens * LONGEST_TOKEN
    assert cut or hint in text


def test_a_writer_that_never_ends_is_cut_even_if_it_does_not_say_so() -> None:
    hint, cut = hint_in(Answer(text="Go on. " * 10_000), 5)
    assert cut
    assert hint.endswith("Go on.")
    assert len(hint) <= 5 * LONGEST_TOKEN


def test_a_thought_is_not_said() -> None:
    assert said(Answer(text="<think>step 1</think> record 1, step 2")) == "record 1, step 2"
    assert said(Answer(text="step 1</think>record")) == "record"
    assert said(Answer(text="<think>step 1")) == ""
