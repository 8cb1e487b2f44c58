"""Texts and prompts that are too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.chat import full_sentences, keep_ends


@given(st.lists(st.integers(0, 99), max_size=40), st.integers(2, 50))
def test_head_and_tail_are_kept_and_a_short_prompt_whole(ids: list[int], limit: int) -> None:
    kept = keep_ends(ids, limit)
    assert len(kept) == min(len(ids), limit)
    head = limit // 2
    assert kept[:head] == tuple(ids[:head])
    if len(ids) > limit:
        assert kept[head:] == tuple(ids[-(limit - head) :])
    else:
        assert kept == tuple(ids)


def test_a_prompt_without_room_for_two_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="limit is 1"):
        keep_ends([1, 2], 1)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Open the box. Then take the", "Open the box."),
        ("Open the box.", "Open the box."),
        ('He said "stop!" and then', 'He said "stop!"'),
        ("Version 1.5 of the", ""),
        ("- look\n- take the", "- look"),
        ("まず開ける。それから", "まず開ける。"),
        ("", ""),
    ],
)
def test_what_was_cut_off_ends_at_its_last_full_sentence(text: str, kept: str) -> None:
    assert full_sentences(text) == kept


@given(st.text(max_size=60), st.text(max_size=20))
def test_full_sentences_are_a_beginning_of_the_text_which_more_text_only_makes_longer(
    text: str, more: str
) -> None:
    kept = full_sentences(text)
    assert text.startswith(kept)
    assert len(full_sentences(f"{text} {more}")) >= len(kept)
