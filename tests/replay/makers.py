"""Small tickets, episodes and trials for the tests of the replay buffer."""

import time
from collections.abc import Callable

from agentmem.replay import Claim
from agentmem.trajectory import Episode, Mode, Split, StopReason, Task, Ticket, Trial, Turn, TurnKind


def make_ticket(group: str, member: int = 0, size: int = 1, split: Split = Split.TRAIN) -> Ticket:
    task = Task(environment="sokoban", instance=7, split=split, group=group)
    return Ticket(id=f"{group}-{member}", task=task, member=member, group_size=size, mode=Mode(episodes=3))


def make_group(group: str, size: int = 2) -> list[Ticket]:
    return [make_ticket(group, member, size) for member in range(size)]


def make_turn(kind: TurnKind = TurnKind.ACT, version: int = 0, text: str = "up") -> Turn:
    return Turn(
        kind=kind,
        policy="agent",
        prompt_ids=(1, 2, 3),
        response_ids=(4, 5),
        logprobs=(-0.5, -0.25),
        versions=(version, version),
        response=text,
    )


def make_episode(index: int, version: int = 0, text: str = "up") -> Episode:
    turns = (make_turn(version=version, text=text),)
    return Episode(index=index, initial_observation="#@$.#", turns=turns, stop=StopReason.FAILURE, reward=0.0)


def make_trial(ticket: Ticket, episodes: int = 1, version: int = 0, text: str = "up") -> Trial:
    return Trial(
        ticket=ticket.id,
        task=ticket.task,
        member=ticket.member,
        group_size=ticket.group_size,
        mode=ticket.mode,
        episodes=tuple(make_episode(k, version, text) for k in range(episodes)),
        attempt=ticket.attempt,
    )


def played(claims: list[Claim], version: int = 0, text: str = "up") -> list[tuple[Claim, Trial]]:
    return [(claim, make_trial(claim.ticket, 1, version, text)) for claim in claims]


def ids(claims: list[Claim]) -> list[str]:
    return [claim.ticket.id for claim in claims]


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = 20.0) -> None:
    """Poll until `condition`; fails with `what` after the limit."""
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"waited {limit_s} s in vain for: {what}"
        time.sleep(0.01)
