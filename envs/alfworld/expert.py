"""ALFWorld's own handcoded expert, for demonstrations and tests.

It knows the task's parameters and all facts of the game, follows fixed rules, and now and then acts at random
(with a seed, here). It isn't perfect: some games it doesn't finish, above all those with two objects. It
speaks the grammar with `move X to Y` alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from envs.alfworld.env import AlfWorld


def expert_actions(env: AlfWorld, *, most: int = 50, seed: int = 0) -> list[str]:
    """Play the environment's present game from its start; what was done, at most `most` turns.

    Whether it was won is `env.game.won`. The environment is left where the expert stopped.
    """
    from alfworld.agents.expert import HandCodedAgentTimeout, HandCodedTWAgent
    from alfworld.agents.expert.handcoded_expert import HandCodedAgentFailed

    env.restart()
    if env.game.ground.placing != "move":
        raise ValueError("the expert doesn't know this game's command for putting things down")
    agent = HandCodedTWAgent(max_steps=4 * most)
    agent.reset(str(env.file))
    agent.observe(env.introduction)
    done: list[str] = []
    command, over = "look", env.game.won
    with _seeded(seed):
        while not over and len(done) < most:
            observation, _, over, _, _ = env.step(command)
            done.append(command)
            seen = {
                "feedback": observation,
                "facts": env.game.facts(),
                "admissible_commands": list(env.game.commands),
                "won": over,
            }
            try:
                wanted = agent.act(seen, 0, over, command)
            except (HandCodedAgentTimeout, HandCodedAgentFailed):
                break
            command = wanted if wanted in env.game.commands else "look"
    return done


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The expert draws from Python's common generator, which is left as it was found."""
    before = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(before)
