"""A chat template that hints don't get through is refused before anything is played."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.rollout.advice import TRIED, check_shows_hints
from agentmem.chat import ChatCodec
from agentmem.failures import ModelError
from envs.doors import Options
from envs.doors.text import TextStyle
from tests.chat.test_chat_codec import STABLE, word_model

STYLE = TextStyle(Options(format="text"))


def codec(path: Path, template: str) -> ChatCodec:
    words = sorted({word for hint in TRIED for word in hint.split()})
    return ChatCodec(word_model(path, template=template, words=words))


def test_a_template_that_shows_user_messages_whole_is_taken(tmp_path: Path) -> None:
    check_shows_hints(codec(tmp_path, STABLE), STYLE)


def test_a_template_that_drops_the_hint_is_refused(tmp_path: Path) -> None:
    last_line = STABLE.replace("{{ m.content }}", "{{ m.content.split('\\n')[-1] }}")
    with pytest.raises(ModelError, match="hints wouldn't reach this agent"):
        check_shows_hints(codec(tmp_path, last_line), STYLE)


def test_a_template_that_fails_on_the_hint_is_refused_in_one_line(tmp_path: Path) -> None:
    strict = (
        "{% for m in messages %}{% if 'Hint' in m.content %}{{ raise_exception('no\nhints') }}{% endif %}"
    )
    with pytest.raises(ModelError, match="fails on a prompt with a hint: no hints"):
        check_shows_hints(codec(tmp_path, strict + "{% endfor %}" + STABLE), STYLE)
