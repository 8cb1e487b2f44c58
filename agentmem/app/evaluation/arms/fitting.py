"""What retrieval arms learn before they are evaluated: by play of training tasks, never of held-out ones.

- The tasks: so many training instances, chosen by the seed; the same for both arms. On each, hints are looked
  up without the task's own records, since a held-out task has none either.
- `rag-abstain`: each is played without a hint and with the nearest record's; the threshold is the one with
  the best mean reward (`agentmem.memory.arms.gate`).
- `memrl`: each is played once with the memory that the values so far rank first, and its value moves towards
  the reward (`agentmem.memory.arms.memrl`). Tasks go by batches of `TOGETHER`: within one the values stand.

Both are learnt from lines alone, so what an interrupted command had played isn't lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from agentmem.app.evaluation.arms.asking import LookedUp
from agentmem.app.evaluation.arms.parts import Parts
from agentmem.app.evaluation.arms.playing import Book, Job, Player
from agentmem.config import RunConfig
from agentmem.evaluation.lines import TrialLine
from agentmem.memory.arms.choice import Gated, Nearest, Rule, Valued
from agentmem.memory.arms.gate import Played, threshold
from agentmem.memory.arms.memrl import ValuedMemories
from agentmem.memory.arms.shelf import Shelf

TOGETHER = 8
LookUp = Callable[[Rule, bool], LookedUp]
"""A source over the shelf: a rule, and whether tasks may find their own records."""


def reward_of(config: RunConfig, line: TrialLine) -> float:
    """As training would reward it (`advice.reward`)."""
    if config.advice.reward == "score":
        return 0.0 if line.score is None else line.score
    return float(any(line.solved))


def fit_instances(config: RunConfig, tasks: int, seed: int) -> list[str | int]:
    """The training instances of a fit."""
    from agentmem.evaluation.held_out import evaluation_instances
    from envs.registry import instances

    return evaluation_instances(instances(config.env.name, config.env.options, "train"), tasks, seed)


async def fitted_gate(
    parts: Parts, player: Player, book: Book, look_up: LookUp, tasks: Sequence[str | int]
) -> Gated:
    """The rule of `rag-abstain`."""
    await player.play(parts, book, tasks, Job("none", None, "training tasks, none"))
    source = look_up(Nearest(), False)
    await player.play(parts, book, tasks, Job("rag", source, "training tasks, rag"))
    return gate_of(player.config, book.of("none").values(), book.of("rag").values())


def gate_of(config: RunConfig, none: Iterable[TrialLine], rag: Iterable[TrialLine]) -> Gated:
    """From the lines of the training tasks. Without one that both played no hint is ever given."""
    without = {line.instance: reward_of(config, line) for line in none}
    played = [
        Played(line.advice[0].cosine, reward_of(config, line), without[line.instance])
        for line in rag
        if line.instance in without and line.advice and line.advice[0].cosine is not None
    ]
    return Gated(threshold(played) if played else math.inf)


async def fitted_values(
    parts: Parts, player: Player, book: Book, look_up: LookUp, shelf: Shelf, tasks: Sequence[str | int]
) -> Valued:
    """The rule of `memrl`."""
    await player.play(parts, book, tasks, Job("none", None, "training tasks, none"))
    rule = Valued(ValuedMemories(len(shelf.records)))
    places = {record.id: place for place, record in enumerate(shelf.records)}

    def learn(lines: Iterable[TrialLine]) -> None:
        for line in lines:
            if line.advice and line.advice[0].record in places:
                rule.memories.learn(places[line.advice[0].record], reward_of(player.config, line))

    learn(book.of("memrl").values())
    source = look_up(rule, False)
    job = Job("memrl", source, "training tasks, memrl", after=learn, at_once=TOGETHER)
    await player.play(parts, book, tasks, job)
    return rule
