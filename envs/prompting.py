"""Ways to ask a language model for its action, over any chat style: baselines that need no training.

- `recipe`: as the environment's own style asks.
- `zero-shot`: the action alone, no reasoning.
- `react`: a thought, then the action (ReAct, Yao et al., 2023).

Only the rules change, the system message of all prompts: what they say of thinking is replaced, and the form
of the answer is added at their end. Situations, memory and reflections stay the style's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from envs.base import EpisodeRecord, Message, ParsedAction, ParsedReflection, Prompt, PromptStyle, View
from envs.chat import THINK_FIRST, ChatStyle
from envs.mixture.style import MixtureStyle
from envs.options import EnvSetupError

RECIPE, ZERO_SHOT, REACT = "recipe", "zero-shot", "react"
PROMPTINGS = (RECIPE, ZERO_SHOT, REACT)

_FORMS = {
    ZERO_SHOT: "Answer at once with that and nothing else: no reasoning, no explanation.",
    REACT: (
        "Answer in two parts. First a line that begins with `Thought:`, in which you reason in one to three "
        "sentences about what you see and what to do about it. Then a line that begins with `Action:` and "
        "holds your answer in the form above."
    ),
}
_ACTION = "Action:"
_FREE_THOUGHT = re.compile(rf"{THINK_FIRST}, then (\w)")
"""What the baselines replace, with the first letter of what it leads to."""


def prompted(style: PromptStyle, prompting: str) -> PromptStyle:
    """The style, asking in this way. Raises EnvSetupError for an unknown way or a style without messages."""
    if prompting not in PROMPTINGS:
        raise EnvSetupError(f"prompting is {prompting!r}: known are {', '.join(PROMPTINGS)}")
    if prompting == RECIPE:
        return style
    if isinstance(style, MixtureStyle):
        return MixtureStyle({domain: prompted(each, prompting) for domain, each in style.styles.items()})
    if not isinstance(style, ChatStyle):
        raise EnvSetupError(
            f"prompting is {prompting!r}: this needs prompts in chat messages, and the environment's format "
            "is raw text for small word-level models (a recipe changes it with a language model: "
            "policies.agent.model=smollm2)"
        )
    return PromptedStyle(style, prompting)


@dataclass(frozen=True, slots=True)
class PromptedStyle(PromptStyle):
    """See the module's docstring."""

    style: ChatStyle
    prompting: str

    def act_prompt(self, view: View) -> Prompt:
        """The style's, under changed rules."""
        return self._under_rules(self.style.act_prompt(view))

    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> Prompt:
        """The style's, under the same rules as the episode's prompts, which it goes on from."""
        return self._under_rules(self.style.reflect_prompt(view, episode))

    def tip_prompt(self, view: View, episode: EpisodeRecord) -> Prompt:
        """As for a reflection."""
        return self._under_rules(self.style.tip_prompt(view, episode))

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """What the style reads after the last `Action:`; in an answer without that word, in all of it."""
        said = response
        if self.prompting == REACT:
            answer = response.rpartition("</think>")[2]
            said = answer.rpartition(_ACTION)[2]
        return self.style.parse_action(said, admissible)

    def parse_reflection(self, response: str) -> ParsedReflection:
        """The style's."""
        return self.style.parse_reflection(response)

    def parse_tip(self, response: str) -> ParsedReflection:
        """The style's."""
        return self.style.parse_tip(response)

    def summarise(self, episode: EpisodeRecord) -> str:
        """The style's."""
        return self.style.summarise(episode)

    def _under_rules(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        rules, *others = messages
        text = _FREE_THOUGHT.sub(lambda found: found[1].upper(), rules.content)
        return (replace(rules, content=f"{text}\n\n{_FORMS[self.prompting]}"), *others)
