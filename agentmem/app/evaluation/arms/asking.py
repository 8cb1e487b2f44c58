"""Where an arm's hint comes from: looked up in the bank, or written by a memory policy.

Both are asked by the driver, before the trial, about the situation that the arm `none` met on the same task;
the answer travels on the ticket (`Ticket.advised`), so the agent plays the same loop with either. A memory
policy is asked through the same generators, client and prompts as by agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec

from agentmem.evaluation.lines import AdviceLine, advice_line
from agentmem.memory.arms.choice import Rule
from agentmem.memory.arms.shelf import Shelf
from agentmem.memory.bank.records import BankRecord
from agentmem.trajectory import Split, Task, Turn, TurnKind, domain_of

if TYPE_CHECKING:
    from agentmem.app.evaluation.arms.parts import Parts
    from envs.base import PromptStyle

BANK = "bank"
"""The policy on a turn whose hint was looked up."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a task shows before the first action; a line of `situations.jsonl`."""

    instance: str | int
    instruction: str
    observation: str


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: the turn that goes on the ticket, and its part of the trial's line."""

    turn: Turn
    line: AdviceLine


class Source(Protocol):
    """Whoever gives an arm's hints. The answers come in the order of the questions."""

    @property
    def branch(self) -> str:
        """`Mode.advice` of its trials."""
        ...

    async def ask(self, situations: Sequence[Seen]) -> list[Said]: ...


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Hints of a bank's records. `own`: a task may find its own record (False while something is learnt on
    the bank's tasks)."""

    shelf: Shelf
    rule: Rule
    env: str
    style: PromptStyle
    tokens_of: Callable[[str], int]
    """Tokens of a hint, by the memory policy's tokenizer: the measure that all arms share."""
    own: bool = True
    environments: Mapping[str, str] = field(default_factory=dict)
    """Of a mixture's domains."""
    branch: str = "free"

    async def ask(self, situations: Sequence[Seen]) -> list[Said]:
        """See Source."""
        return await asyncio.to_thread(lambda: [self._one(seen) for seen in situations])

    def _one(self, seen: Seen) -> Said:
        from envs.task_text import task_text

        style = self.style.of(domain_of(seen.instance))
        task = task_text(self.env, style, seen.instruction, seen.observation)
        without = () if self.own else task_names(self.env, seen.instance, self.environments)
        found = self.shelf.nearest(task, seen.observation, self.rule.candidates, without=without)
        chosen = self.rule.choose(found)
        cosine = found[0].cosine if found else None
        return self._said(seen, chosen.record if chosen else None, chosen.cosine if chosen else cosine)

    def _said(self, seen: Seen, record: BankRecord | None, cosine: float | None) -> Said:
        decision = "abstain" if record is None else "generate"
        turn = Turn(
            kind=TurnKind.ADVISE,
            policy=BANK,
            observation=seen.observation,
            response="" if record is None else record.m,
            actions=(decision,),
            memory_snapshot="" if record is None else record.id,
        )
        line = AdviceLine(
            decision=decision,
            p_generate=None,
            hint_tokens=0 if record is None else self.tokens_of(record.m),
            hint=turn.response,
            record=turn.memory_snapshot,
            cosine=cosine,
        )
        return Said(turn, line)


@dataclass(frozen=True, slots=True)
class Written:
    """Hints of the memory policy that is served now. `branch`: `free`, it decides; `generate`, it must."""

    parts: Parts
    branch: str

    async def ask(self, situations: Sequence[Seen]) -> list[Said]:
        """See Source. A late answer abstains, and its line says so."""
        turns = await self.parts.ask(situations, self.branch)
        return [Said(turn, advice_line(turn)) for turn in turns]


def task_names(env: str, instance: str | int, environments: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """What a bank's records may call a task: of a mixture's also as its domain's environment alone does."""
    from envs.domains import parted

    domain, own = parted(instance)
    names = {(env, str(instance))}
    return frozenset(names | {(environments[domain], str(own))} if domain in environments else names)


def task_of(env: str, seen: Seen) -> Task:
    """The task of a situation, as a question's ticket names it."""
    return Task(environment=env, instance=seen.instance, split=Split.EVAL, group="")
