"""Trials, traces and records for the tests of the experience bank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentmem.memory.bank.records import BankRecord, Tokens
from agentmem.memory.bank.traces import Trace, traces_of
from agentmem.trajectory import Episode, Mode, Split, StopReason, Task, Trial, Turn, TurnKind


def episode(index: int, actions: Sequence[str], *, success: bool, score: float | None = None) -> Episode:
    turns = tuple(
        Turn(
            kind=TurnKind.ACT,
            policy="agent",
            prompt_ids=(1, 2),
            response_ids=(3,),
            logprobs=(float("nan") if n == 0 else -0.5,),
            versions=(1,),
            forced=1 if n == 0 else 0,
            observation=f"room {n}" if n else "the hall",
            response=f"I go {action}",
            actions=(action,) if action else (),
            reward=1.0 if success and n == len(actions) - 1 else 0.0,
            invalid=not action,
        )
        for n, action in enumerate(actions)
    )
    return Episode(
        index=index,
        initial_observation="the hall",
        turns=turns,
        stop=StopReason.SUCCESS if success else StopReason.FAILURE,
        success=success,
        reward=1.0 if success else 0.0,
        score=score,
        final_observation="the garden" if success else "a wall",
    )


def trial(
    ticket: str,
    instance: str | int,
    *episodes: Episode,
    split: Split = Split.TRAIN,
    instruction: str = "Leave the house.",
    environment: str = "house",
) -> Trial:
    return Trial(
        ticket=ticket,
        task=Task(environment=environment, instance=instance, split=split, group="g"),
        member=0,
        group_size=1,
        mode=Mode(episodes=len(episodes)),
        episodes=episodes,
        instruction=instruction,
    )


def won(*actions: str, score: float | None = None, index: int = 0) -> Episode:
    return episode(index, actions, success=True, score=score)


def lost(*actions: str, score: float | None = None, index: int = 0) -> Episode:
    return episode(index, actions, success=False, score=score)


def traces(*trials: Trial) -> list[Trace]:
    return [trace for one in trials for trace in traces_of(one)]


def house(tasks: int) -> list[Trace]:
    """Traces of so many tasks; each has a success, a failure, or both."""
    made = []
    for n in range(tasks):
        episodes = [lost("left", f"door {n}"), won("right", f"door {n}", index=1)]
        if n % 3 == 0:
            episodes = episodes[:1]
        elif n % 3 == 1:
            episodes = [won("right", f"door {n}")]
        made.append(trial(f"t{n}", f"house/{n}", *episodes, instruction=f"Leave house {n}."))
    return traces(*made)


def record(name: str = "a", **fields: Any) -> BankRecord:
    given: dict[str, Any] = {
        "id": name,
        "domain": "house",
        "task_id": "house/7",
        "seed": 7,
        "split": Split.TRAIN,
        "q": "Leave the house.",
        "o": "the hall",
        "m": f"Go right, {name}.",
        "sources": ("t0:0", "t0:1"),
        "successes": 1,
        "failures": 1,
        "writer": "small",
        "prompt_version": "1",
        "tokens": Tokens(prompt=10, completion=5),
    }
    return BankRecord(**given | fields)
