"""The structs of a trial. Frozen; invariants are checked at construction, also when decoded from the wire.

A *task* is tried by a *group* of trials. A *ticket* says: try this task as member j of group g. A *trial* is
up to N *episodes* on the same instance from the same initial state. A *turn* is one LLM call.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum

import msgspec

from agentmem.failures import Failure
from agentmem.sampling import FinishReason, Sampling
from agentmem.vision.picture import Picture


class TurnKind(StrEnum):
    """What a turn's text is for."""

    ACT = "act"
    """An action in the environment."""
    REFLECT = "reflect"
    """LaMer: the text between two episodes."""
    TIP = "tip"
    """EMPO²: a one-sentence lesson after an episode."""
    ADVISE = "advise"
    """Mem-π: the decision and the hint before an episode."""


class StopReason(StrEnum):
    """Why an episode ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    """The environment ended it without success (a mine, a wrong purchase, an unsolvable position)."""
    STEP_LIMIT = "step_limit"
    TOKEN_LIMIT = "token_limit"
    """The trial's budget of sampled tokens is spent."""
    CONTEXT_EXHAUSTED = "context_exhausted"
    """The next prompt and its response no longer fit into the model's context."""
    ENV_FAILURE = "env_failure"
    """Infrastructure failed; the reward is None, never 0."""


class Split(StrEnum):
    """What an instance may be used for. Evaluation trials never reach the training tables."""

    TRAIN = "train"
    EVAL = "eval"


_NAMED = re.compile(r"@([a-z0-9][a-z0-9_-]*)[/#]")


def domain_of(instance: str | int) -> str:
    """The domain of an instance of a mixture of environments, which is called `@DOMAIN/INSTANCE` or
    `@DOMAIN#NUMBER` (`envs.domains`); empty for any other."""
    found = _NAMED.match(instance) if isinstance(instance, str) else None
    return "" if found is None else found[1]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of an environment. `instance` is whatever addresses it: a path, an index, a seed."""

    environment: str
    instance: str | int
    split: Split = Split.TRAIN
    group: str = ""

    @property
    def domain(self) -> str:
        """Which environment of a mixture the instance is from; empty: of no mixture."""
        return domain_of(self.instance)

    @property
    def world(self) -> str:
        """What a memory is of that isn't of the instance alone: the environment, in a mixture the domain."""
        return f"{self.environment}/{self.domain}" if self.domain else self.environment


class Mode(msgspec.Struct, frozen=True, kw_only=True):
    """How a trial is to be played, carried on its ticket so that a batch is trained as it was rolled out."""

    method: str = "lamer"
    episodes: int = 1
    memory: str = "none"
    """Inter-episode memory: `history`, `reflection`, `both` or `none`."""
    draw: str = ""
    """The method's own draw for this update (EMPO²: which of its three modes)."""
    tips: str = ""
    """EMPO²: the namespace whose tips this trial may read and adds to; empty: it does neither."""
    advice: str = ""
    """Mem-π: the trial's branch of its group. `generate` and `abstain`: the decision is forced, `free`: the
    memory policy decides. Empty: it isn't asked."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """An order to play one trial."""

    id: str
    task: Task
    member: int
    group_size: int = 1
    mode: Mode = Mode()
    min_version: int = 0
    policies: dict[str, str] = msgspec.field(default_factory=lambda: {"agent": "agent"})
    """Role -> name of the policy that plays it."""
    attempt: int = 0
    played: tuple[Episode, ...] = ()
    """Episodes that the trial goes on behind (evaluations that hide a piece of their memory) ..."""
    reflected: tuple[Turn, ...] = ()
    """... and the reflections on them."""
    advised: tuple[Turn, ...] = ()
    """Advice that was asked for already (Mem-π's arms): the trial doesn't ask again."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One LLM call of one policy.

    For a trained policy `response_ids`, `logprobs` and `versions` are all there and equally long; the first
    `forced` response ids weren't sampled and have NaN log-probs. For an untrained policy (endpoint, script)
    all three are absent.
    """

    kind: TurnKind
    policy: str
    prompt_ids: tuple[int, ...] = ()
    student_prompt_ids: tuple[int, ...] | None = None
    """EMPO² off-policy: the prompt without memory, over the same response ids."""
    response_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    versions: tuple[int, ...] | None = None
    sampling: Sampling | None = None
    forced: int = 0
    finish_reason: FinishReason = FinishReason.STOP

    observation: str = ""
    response: str = ""
    actions: tuple[str, ...] = ()
    reward: float | None = None
    """The environment's reward for this turn (all moves of the turn added), without any invalid penalty."""
    invalid: bool = False
    admissible: tuple[str, ...] | None = None
    gap: float | None = None
    """`advise`: logit[GENERATE] − logit[ABSTAIN] if the policy was asked, also behind a forced decision."""
    memory_snapshot: str = ""
    """The state of the tips that this turn's prompt was made from."""
    memory_dropped: int = 0
    """Pieces of memory that were left out of the prompt, so that it fits."""
    image: Picture | None = None
    """Advice turns: the picture in the prompt."""

    def __post_init__(self) -> None:
        if self.image is not None and self.kind is not TurnKind.ADVISE:
            raise ValueError(f"turn: a picture in a turn of kind {self.kind}: only advice is asked with one")
        ids, logprobs, versions = self.response_ids, self.logprobs, self.versions
        if ids is None or logprobs is None or versions is None:
            if not (ids is None and logprobs is None and versions is None):
                raise ValueError("turn: response ids, log-probs and versions must be all there or all absent")
        else:
            if not len(ids) == len(logprobs) == len(versions):
                raise ValueError(
                    f"turn: {len(ids)} response ids, {len(logprobs)} log-probs, {len(versions)} versions: "
                    "must be equally many"
                )
            if not 0 <= self.forced <= len(ids):
                raise ValueError(f"turn: forced prefix of {self.forced} tokens in a response of {len(ids)}")
            if not all(math.isnan(p) for p in logprobs[: self.forced]):
                raise ValueError("turn: a forced token was never sampled, so its log-prob must be NaN")
            for p in logprobs[self.forced :]:
                if not p <= 1e-6:  # NaN fails, too
                    raise ValueError(f"turn: log-prob {p} of a sampled token: must be a number <= 0")


class Episode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run from the initial state. `reward`: the sum of its turns'; None if infrastructure failed."""

    index: int
    initial_observation: str
    turns: tuple[Turn, ...]
    stop: StopReason
    success: bool = False
    reward: float | None = None
    score: float | None = None
    """The benchmark's own score."""
    summary: str = ""
    """The environment's short account for the next episode's memory."""
    final_observation: str = ""

    def __post_init__(self) -> None:
        if self.success != (self.stop is StopReason.SUCCESS):
            raise ValueError(f"episode {self.index}: success is {self.success} but it stopped by {self.stop}")
        if (self.reward is None) != (self.stop is StopReason.ENV_FAILURE):
            raise ValueError(f"episode {self.index}: reward None and stop reason env_failure go together")


class Trial(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A played ticket. `reflections[n]` stands between episodes n and n+1; `advice` before episodes."""

    ticket: str
    task: Task
    member: int
    group_size: int
    mode: Mode
    episodes: tuple[Episode, ...]
    instruction: str = ""
    """The instance's own task text, where it has one."""
    reflections: tuple[Turn, ...] = ()
    advice: tuple[Turn, ...] = ()
    wall_s: float = 0.0
    failure: Failure | None = None
    attempt: int = 0

    def __post_init__(self) -> None:
        for n, episode in enumerate(self.episodes):
            if episode.index != n:
                raise ValueError(f"trial {self.ticket}: episode {episode.index} stands at place {n}")
        if len(self.reflections) > len(self.episodes):
            raise ValueError(
                f"trial {self.ticket}: {len(self.reflections)} reflections on {len(self.episodes)} episodes"
            )
        for kind, turns in ((TurnKind.REFLECT, self.reflections), (TurnKind.ADVISE, self.advice)):
            if any(turn.kind is not kind for turn in turns):
                raise ValueError(f"trial {self.ticket}: a turn among its {kind} turns is of another kind")

    @property
    def success(self) -> bool:
        """Solved within any episode."""
        return any(e.success for e in self.episodes)

    @property
    def score(self) -> float | None:
        """The benchmark's score of the best episode, None if none was scored."""
        scores = [e.score for e in self.episodes if e.score is not None]
        return max(scores) if scores else None

    @property
    def valid(self) -> bool:
        """False if infrastructure failed: such a trial has no rows and is nobody's peer."""
        return self.failure is None and all(e.reward is not None for e in self.episodes)

    def turns(self) -> list[Turn]:
        """All turns in the order of play (advice first, reflections after their episode)."""
        out = list(self.advice)
        for n, episode in enumerate(self.episodes):
            out.extend(episode.turns)
            if n < len(self.reflections):
                out.append(self.reflections[n])
        return out

    def learning_turns(self) -> list[Turn]:
        """The turns of the policy that learns. In an advised trial (Mem-π) that is the memory policy: the
        agent is frozen, and its weights have one version for ever."""
        return list(self.advice) if self.mode.advice else self.turns()

    def version_range(self) -> tuple[int, int] | None:
        """The oldest and newest weight version that sampled a token of the policy that learns."""
        seen = [v for t in self.learning_turns() if t.versions for v in (min(t.versions), max(t.versions))]
        return (min(seen), max(seen)) if seen else None

    def token_counts(self) -> dict[str, int]:
        """Sampled tokens by turn kind."""
        counts: dict[str, int] = {}
        for turn in self.turns():
            counts[turn.kind] = counts.get(turn.kind, 0) + len(turn.response_ids or ())
        return counts
