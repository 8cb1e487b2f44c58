"""Pictures in Redis: of trials in course and of finished ones."""

from __future__ import annotations

import math

from msgspec.structs import replace

from agentmem.replay import Progress, ReplayBuffer
from agentmem.trajectory import TurnKind
from tests.replay.makers import make_episode, make_ticket, make_trial, make_turn
from tests.vision.seeing import picture

TURN = replace(
    make_turn(TurnKind.ADVISE),
    policy="memory",
    image=picture(1, 200, 120),
    logprobs=(math.nan, -0.5),
    forced=1,
)


def test_the_next_holder_of_a_ticket_goes_on_with_the_same_picture(buffer: ReplayBuffer) -> None:
    buffer.submit([make_ticket("g")])
    (claim,) = buffer.claim("a", 1)
    assert buffer.save_progress([Progress(claim=claim, episode=make_episode(0), advice=(TURN,))]) == [True]
    buffer.release([claim])
    (again,) = buffer.claim("b", 1)
    assert again.advice[0].image == TURN.image


def test_the_learner_gets_the_picture_of_a_finished_trial(buffer: ReplayBuffer) -> None:
    buffer.submit([make_ticket("g")])
    (claim,) = buffer.claim("a", 1)
    buffer.commit([(claim, replace(make_trial(claim.ticket), advice=(TURN,)))])
    (group,) = buffer.take_groups(1)
    assert group.trials[0].advice[0].image == TURN.image
