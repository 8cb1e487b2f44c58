"""A scripted policy and a small world, for tests of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from actors.rollout.protocols import Reply
from agentmem.failures import EnvError
from agentmem.sampling import Sampling
from agentmem.trajectory import Mode, Task, Ticket, TurnKind
from envs.base import (
    EpisodeRecord,
    Info,
    Instance,
    ParsedAction,
    ParsedReflection,
    Prompt,
    PromptStyle,
    TextEnv,
    View,
)


class HallStyle(PromptStyle):
    """All of the view as one line, so that a test can read what the policy was shown."""

    def act_prompt(self, view: View) -> Prompt:
        memory = " ".join(
            f"[{m.index} summary={m.summary} reflection={m.reflection} success={m.success}]"
            for m in view.memory
        )
        steps = " ".join(step.response for step in view.history)
        hint = "" if view.hint is None else f"hint: {view.hint} "
        at = f"{view.episode}/{view.episodes}"
        return f"act {at} {hint}memory: {memory} history: {steps} now: {view.observation}"

    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> Prompt:
        played = " ".join(step.response for step in episode.steps)
        return f"reflect {episode.index} stop={episode.stop} played: {played} saw: {view.observation}"

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        if response in ("left", "right"):
            return ParsedAction((response,))
        return ParsedAction((), invalid=True)

    def parse_reflection(self, response: str) -> ParsedReflection:
        if response.startswith("remark "):
            return ParsedReflection(response.removeprefix("remark "))
        return ParsedReflection("", invalid=True)

    def advise_prompt(self, task: str, observation: str) -> Prompt:
        return f"advise {task}: {observation}"

    def summarise(self, episode: EpisodeRecord) -> str:
        return "went " + ",".join(step.response for step in episode.steps)


class Hall(TextEnv):
    """Doors in a row: an instance is a word of l and r; the right turn opens a door, a wrong one ends it."""

    name = "hall"
    style = HallStyle()

    def __init__(self, *, crash_at: str | None = None, bug_at: str | None = None) -> None:
        self.path, self.at, self.restarts, self.closed = "", 0, 0, False
        self.crash_at, self.bug_at = crash_at, bug_at

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        assert options is not None
        self.path = str(options["instance"])
        self.restarts = -1
        return self.restart()

    def restart(self) -> tuple[str, Info]:
        self.at = 0
        self.restarts += 1
        return self._seen(), {"success": False, "invalid": False, "instruction": "leave the hall"}

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        if self.crash_at == self._seen():
            raise EnvError(f"hall crashed at {self._seen()}")
        if self.bug_at == self._seen():
            raise KeyError("door")
        if action not in ("left", "right"):
            return self._seen(), 0.0, False, False, {"success": False, "invalid": True}
        if action[0] != self.path[self.at]:
            return "a wall", -0.5, True, False, {"success": False, "invalid": False, "score": 0.0}
        self.at += 1
        won = self.at == len(self.path)
        info = {"success": won, "invalid": False, "score": float(self.at)}
        return self._seen(), 1.0 if won else 0.25, won, False, info

    def _seen(self) -> str:
        return f"door {self.at} of {len(self.path)}"

    def close(self) -> None:
        self.closed = True


@dataclass
class ScriptedPolicy:
    """Answers by a function of (prompt, kind), or from a list. Its ids are made up, and equally long."""

    answers: Iterable[str] | Callable[[str, TurnKind], str]
    longest_prompt: int = 10_000
    ids_per_answer: int = 2
    name: str = "agent"
    asked: list[tuple[TurnKind, str]] = field(default_factory=list)
    given: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not callable(self.answers):
            answers = iter(self.answers)
            self.answers = lambda prompt, kind: next(answers)

    async def respond(
        self, prompt: Prompt, kind: TurnKind, student: Prompt | None = None, view: View | None = None
    ) -> Reply | None:
        assert isinstance(prompt, str)
        if len(prompt) > self.longest_prompt:
            return None
        await asyncio.sleep(0)
        assert callable(self.answers)
        self.asked.append((kind, prompt))
        text = self.answers(prompt, kind)
        ids = tuple(range(len(self.given), len(self.given) + self.ids_per_answer))
        self.given.append(ids)
        return Reply(
            text=text,
            prompt_ids=tuple(prompt.encode()),
            response_ids=ids,
            logprobs=(-0.5,) * len(ids),
            versions=(3,) * len(ids),
            sampling=Sampling(max_tokens=len(ids) or 1),
        )


def ticket(
    instance: Instance = "lr", *, episodes: int = 3, memory: str = "both", name: str = "t", env: str = "hall"
) -> Ticket:
    return Ticket(
        id=name,
        task=Task(environment=env, instance=instance),
        member=1,
        group_size=4,
        mode=Mode(episodes=episodes, memory=memory),
    )
