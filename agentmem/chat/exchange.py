"""A prompt with its answer, and how the next prompt continues them at token level.

A decoded answer that is encoded again usually gives other ids than were sampled. So a prompt that goes on
from an earlier one keeps the ids of that prompt and of its response, and only what follows is tokenised:

    earlier prompt ids + response ids + ids of (end marker, new messages, generation prompt)

It goes on from it if its messages are the earlier messages, the assistant's answer exactly as it was
decoded, and more; and if its rendering begins with the earlier rendering and the answer. Its text is then
that of the whole rendering, save for what that loses (special tokens in the answer, blanks that are trimmed).
"""

from __future__ import annotations

from dataclasses import dataclass

Messages = tuple[tuple[str, str], ...]
"""(role, content) of each message."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Messages as the model reads them."""

    messages: Messages
    text: str
    """The chat template's rendering of the messages."""
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt and what was sampled for it."""

    prompt: Rendered
    response_ids: tuple[int, ...]
    answer: str
    """The response as text, without special tokens."""

    def rest(self, messages: Messages, text: str) -> str | None:
        """What `text`, which renders `messages`, has behind the answer; None if they don't go on from it."""
        said = (*self.prompt.messages, ("assistant", self.answer))
        if messages[: len(said)] != said:
            return None
        for shown in (self.answer, self.answer.strip()):  # many templates trim a message
            if text.startswith(self.prompt.text + shown):
                return text[len(self.prompt.text) + len(shown) :]
        return None
