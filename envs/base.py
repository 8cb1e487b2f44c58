"""The contract of an environment: how it is played, and how its situation becomes a prompt.

`TextEnv` is Gymnasium's `Env[str, str]`: text in, text out. One object plays one instance at a time:

    env.reset(options={"instance": x})   ->  (observation, info)    a new instance
    env.restart()                        ->  (observation, info)    the *identical* initial state again
    env.step(action)                     ->  (observation, reward, terminated, truncated, info)

`info` always has `success: bool` and `invalid: bool` (the action couldn't be parsed or isn't possible; it
changed nothing), and may have `score: float` (the benchmark's own). All rewards of a turn's moves are summed.
With an option `screenshot`, `info["screenshot"]` of `reset` and `restart` is what there is to see, in PNG.
Given the same instance and actions, an environment returns the same everything.

`PromptStyle` is pure text work without environment state, so it runs beside the policy while the environment
may live in another process. A style is one per (environment, format).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import gymnasium

Instance = str | int
Info = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


Prompt = str | tuple[Message, ...]
"""Raw text (tokenised as it is, for small word-level models) or chat messages."""


@dataclass(frozen=True, slots=True)
class Step:
    """One turn that was played: what was seen, answered, sent and got."""

    observation: str
    response: str
    actions: tuple[str, ...]
    reward: float
    invalid: bool = False


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """A finished episode as a reader (the next prompt, `summarise`) sees it."""

    index: int
    steps: tuple[Step, ...]
    final_observation: str
    success: bool
    stop: str
    """Stop reason: success, failure, step_limit, token_limit, context_exhausted."""


@dataclass(frozen=True, slots=True)
class EpisodeMemory:
    """What the next episodes may know of an earlier one. Absent parts are None."""

    index: int
    success: bool
    summary: str | None = None
    reflection: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """All that an act prompt may show."""

    observation: str
    history: tuple[Step, ...] = ()
    """The turns of this episode so far, oldest first (the style applies its own limit)."""
    admissible: tuple[str, ...] | None = None
    episode: int = 0
    episodes: int = 1
    memory: tuple[EpisodeMemory, ...] = ()
    tips: tuple[str, ...] = ()
    hint: str | None = None
    instruction: str = ""
    """The instance's own task text, where it has one (`info["instruction"]` of reset)."""
    domain: str = ""
    """Which environment of a mixture it is from (`envs.domains`); empty: of no mixture."""


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """The actions found in a response (several moves of one turn in order), or invalid."""

    actions: tuple[str, ...]
    invalid: bool = False

    @property
    def text(self) -> str:
        """What is sent to `TextEnv.step`: moves joined by `; `."""
        return "; ".join(self.actions)


@dataclass(frozen=True, slots=True)
class ParsedReflection:
    """The text kept of a reflection; invalid and empty if its tag is missing."""

    text: str
    invalid: bool = False


class EnvLost(RuntimeError):
    """What an environment relies on (a browser, a site, a server) failed: the episode may go well elsewhere.

    Any other exception of an environment counts as its bug, and isn't tried again.
    """


class TextEnv(gymnasium.Env[str, str], ABC):
    """One playable environment. See the module's docstring for the contract."""

    name: ClassVar[str]
    style: PromptStyle

    @abstractmethod
    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start `options["instance"]`. Raises ValueError naming the instance if it doesn't exist."""

    @abstractmethod
    def restart(self) -> tuple[str, Info]:
        """Return to the identical initial state of the current instance."""

    @abstractmethod
    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Play one turn. An impossible or empty action is `invalid`, never an exception."""

    def admissible_actions(self) -> tuple[str, ...] | None:
        """The actions possible now, or None where the environment doesn't list them."""
        return None

    def summarise(self, episode: EpisodeRecord) -> str:
        """The environment's short account of a finished episode for the next one's memory."""
        return self.style.summarise(episode)

    def close(self) -> None:
        """End everything that the environment started. Idempotent."""


ASK_ADVICE = (
    "You advise an agent that is about to begin a task. You are given the task and the first thing that the "
    "agent sees. Decide whether advice would help it; if so, write a short hint: what to do, what to avoid, "
    "what similar tasks have shown. Write the hint only."
)


class PromptStyle(ABC):
    """From a view to a prompt, from a response to an action. Stateless and picklable."""

    #: Longer reflections are cut to this length before they are remembered.
    max_reflection_chars: ClassVar[int] = 2000
    #: The same for tips.
    max_tip_chars: ClassVar[int] = 700

    def of(self, domain: str) -> PromptStyle:
        """The style for instances of a domain: itself, unless the environment is a mixture of several."""
        return self

    def each(self) -> dict[str, PromptStyle]:
        """The styles of all domains by their names; without domains itself, under the empty name."""
        return {"": self}

    @abstractmethod
    def act_prompt(self, view: View) -> Prompt:
        """The prompt that asks for the next action. Pure function of the view."""

    @abstractmethod
    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> Prompt:
        """The prompt that asks for a reflection on the episode just played (`view`: as it ended)."""

    @abstractmethod
    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The actions in a response."""

    @abstractmethod
    def parse_reflection(self, response: str) -> ParsedReflection:
        """The reflection in a response, cut to `max_reflection_chars`."""

    def tip_prompt(self, view: View, episode: EpisodeRecord) -> Prompt:
        """The prompt that asks for a tip on the episode just played (`view`: as it ended): what to know in
        situations like these, in any later episode. By default the same as for a reflection."""
        return self.reflect_prompt(view, episode)

    def parse_tip(self, response: str) -> ParsedReflection:
        """The tip in a response, cut to `max_tip_chars`; empty and invalid if there is none."""
        parsed = self.parse_reflection(response)
        return ParsedReflection(parsed.text[: self.max_tip_chars], invalid=parsed.invalid or not parsed.text)

    def advise_prompt(self, task: str, observation: str) -> Prompt:
        """The prompt that asks a memory policy for a hint, before an episode begins: the task in words, and
        the first observation. Raw-text formats have one of their own."""
        asked = f"{task}\n\n{observation}".strip()
        return (Message("system", ASK_ADVICE), Message("user", asked))

    @abstractmethod
    def summarise(self, episode: EpisodeRecord) -> str:
        """The account of a finished episode that stands in the next prompt's memory."""


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """A registry entry: how to make an environment, and what it needs.

    `light`: pure Python that can't hang or crash the process, so it may run inside an agent actor
    (`env.placement: local`). `options` are checked by the environment's own frozen dataclass.
    """

    name: str
    summary: str
    module: str
    """Where `make(options) -> TextEnv`, `style(options) -> PromptStyle`, `instances(options, split) ->
    Sequence[Instance]` and the dataclass `Options` live; imported when first used. It may have `check() ->
    list[str]` too: what is missing beyond packages (data, a browser, a server), and how to get it."""
    light: bool = False
    deterministic: bool = False
    """Equal actions in an instance always lead to the same outcomes, so they may be remembered."""
    extra: str | None = None
    """The pip extra (`agentmem[extra]`) that installs what it needs."""
    requires: tuple[str, ...] = field(default=())
    """Python packages whose absence is reported before use."""
    venv: str | None = None
    """The virtual environment of its own that holds `requires` (see `interpreter.py`). The module must then
    import without those packages; only `make` and the environment itself may use them."""
    mixes: bool = False
    """It consists of other environments, which its options name. Its module then has `parts(options, split)
    -> list[Part]` (`envs.domains`), `weights(options)`, `environments(options)`, `listing_actions(options)`,
    `has_screenshot(options)` and `needs(options, entry) -> EnvSpec`, and its `check` takes the options."""
