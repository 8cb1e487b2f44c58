"""The prompts of a mixture: those of the domain that an instance belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from envs.base import EpisodeRecord, ParsedAction, ParsedReflection, Prompt, PromptStyle, View
from envs.options import EnvSetupError


@dataclass(frozen=True, slots=True)
class MixtureStyle(PromptStyle):
    """It asks and reads nothing itself: `of(domain)` does."""

    styles: Mapping[str, PromptStyle]

    def of(self, domain: str) -> PromptStyle:
        """The style of a domain. Raises EnvSetupError for an unknown one."""
        if domain not in self.styles:
            raise EnvSetupError(
                f"the mixture has no domain {domain!r}: its domains are {', '.join(self.styles)}"
            )
        return self.styles[domain]

    def each(self) -> dict[str, PromptStyle]:
        """By domain."""
        return dict(self.styles)

    def _none(self) -> NoReturn:
        raise TypeError("the prompts of a mixture are its domains': style.of(domain)")

    def act_prompt(self, view: View) -> Prompt:
        """None of its own."""
        self._none()

    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> Prompt:
        """None of its own."""
        self._none()

    def advise_prompt(self, task: str, observation: str) -> Prompt:
        """None of its own."""
        self._none()

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """None of its own."""
        self._none()

    def parse_reflection(self, response: str) -> ParsedReflection:
        """None of its own."""
        self._none()

    def summarise(self, episode: EpisodeRecord) -> str:
        """None of its own."""
        self._none()
