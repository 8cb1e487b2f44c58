"""A prompt with a picture: its tokens stand before the first user message's text (before a raw text).

That is where the chat templates of these models put a picture that comes first in a message. What the text
says itself is never read as a picture's token. A prompt that is too long loses of its text, head and tail
kept, and never of its picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentmem.chat.cut import keep_ends
from agentmem.failures import ModelError
from agentmem.vision.picture import Picture, PictureError
from agentmem.vision.reader import PictureReader

Messages = Sequence[tuple[str, str]]


class Encoder(Protocol):
    """A tokenizer's side: see `ChatCodec.encode`."""

    def encode(self, prompt: str | Messages, /) -> tuple[int, ...]: ...


def picture_prompt(
    encoder: Encoder, prompt: str | Messages, picture: Picture | None, reader: PictureReader, limit: int
) -> tuple[tuple[int, ...], bool]:
    """Ids of a prompt for a model that sees, at most `limit` of them, and whether any text was left out.

    Raises PictureError where the picture alone is too long, ModelError where the template drops its place.
    """
    if picture is None:
        ids = encoder.encode(_harmless(prompt, reader))
        return keep_ends(ids, limit), len(ids) > limit
    ids = encoder.encode(_marked(_harmless(prompt, reader), reader.marker))
    place = ids.index(reader.pad) if ids.count(reader.pad) == 1 else 0
    if ids[place - 1 : place + 2] != (reader.start, reader.pad, reader.end):
        raise ModelError(
            f"model {reader.path}: its chat template or its tokenizer doesn't keep a picture's place "
            f"({reader.marker}) in a user's message"
        )
    tokens = reader.placed(picture)
    before, after = ids[: place - 1], ids[place + 2 :]
    room = limit - len(tokens)
    if room < 2:
        width, height = picture.size
        raise PictureError(
            f"a picture of {width} x {height} pixels takes {len(tokens)} tokens, a prompt may have {limit}: "
            "raise the context length, or lower the longest_edge of the model's image processor"
        )
    kept = keep_ends((*before, *after), room)
    at = min(len(before), room // 2) if len(before) + len(after) > room else len(before)
    return (*kept[:at], *tokens, *kept[at:]), len(before) + len(after) > room


def _harmless(prompt: str | Messages, reader: PictureReader) -> str | Messages:
    if isinstance(prompt, str):
        return reader.harmless(prompt)
    return [(role, reader.harmless(content)) for role, content in prompt]


def _marked(prompt: str | Messages, marker: str) -> str | Messages:
    if isinstance(prompt, str):
        return f"{marker} {prompt}"
    first = next((i for i, (role, _) in enumerate(prompt) if role == "user"), None)
    if first is None:
        raise PictureError("a picture needs a user's message to stand in, and the prompt has none")
    role, content = prompt[first]
    return [*prompt[:first], (role, f"{marker}{content}"), *prompt[first + 1 :]]
