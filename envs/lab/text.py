"""What the chat messages of both environments have in common.

Besides our own form in action tags the benchmark's is understood; each environment says how that reads.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from envs.base import EpisodeRecord, ParsedAction, Step
from envs.chat import ChatStyle, tagged
from envs.shortened import shortened

CUT = "… ({left} more characters are not shown)"
ACCOUNT_CHARS = 400
"""Of an action, and of what it gave, in the account of an episode."""


class LabStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    def situation(self, observation: str) -> str:
        """As it is."""
        return observation

    def outcome(self, step: Step) -> str:
        """Says that an answer couldn't be read; all else can be seen."""
        return "Your last answer held no action in the asked form; nothing was run." if step.invalid else ""

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The text of the last action tag, or what the benchmark's own form holds; else invalid."""
        text = tagged(response, "action")
        if text is None:
            text = self.benchmarks_own(response.rpartition("</think>")[2])
        else:
            text = self.unwrapped(text)
        return ParsedAction((text,)) if text else ParsedAction((), invalid=True)

    @abstractmethod
    def benchmarks_own(self, answer: str) -> str | None:
        """The action in an answer of the benchmark's form, None if it has none."""

    def unwrapped(self, text: str) -> str:
        """The action in what stood in an action tag."""
        return text

    def summarise(self, episode: EpisodeRecord) -> str:
        """Each turn's action and what it gave."""
        after = [step.observation for step in episode.steps[1:]] + [episode.final_observation]
        lines = []
        for number, (step, seen) in enumerate(zip(episode.steps, after, strict=True), 1):
            did = "nothing that could be read" if step.invalid else cut("; ".join(step.actions))
            lines.append(f"Turn {number}: {did}\n{cut(seen)}")
        return "\n".join(lines)


def cut(text: str, most: int = ACCOUNT_CHARS) -> str:
    """The first characters of a text that a model will see."""
    return shortened(text, most, CUT)
