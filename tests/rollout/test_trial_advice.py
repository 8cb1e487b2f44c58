"""A memory policy's advice in the trial loop, and over a real replay server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from actors.rollout.agent_loop import AgentLoop
from actors.rollout.local_env import LocalEnvs
from actors.rollout.protocols import Situation
from actors.rollout.scripted import ScriptedPolicy as ScriptedAgentPolicy
from actors.rollout.strategies import strategy_of
from actors.rollout.trial import Limits, Progress, play_trial
from agentmem.evaluation.lines import line_of
from agentmem.failures import EngineError
from agentmem.memory.advisor import late_turn
from agentmem.replay import EmbeddedServer, ReplayBuffer
from agentmem.sampling import Sampling
from agentmem.trajectory import StopReason, Ticket, Trial, Turn, TurnKind, decode_trial, encode_trial
from envs import registry
from envs.base import View
from tests.rollout.test_agent_loop import groups, running
from tests.rollout.worlds import Hall, ScriptedPolicy, ticket

LIMITS = Limits(max_turns=5)


@dataclass
class Told:
    """An advisor that says what it is given to say; empty: it abstains."""

    says: list[str]
    every_episode: bool = False
    asked: list[Situation] = field(default_factory=list)

    async def advise(self, situation: Situation) -> Turn:
        self.asked.append(situation)
        text = self.says[(len(self.asked) - 1) % len(self.says)]
        ids = (40, 7, 8, 2) if text else (41,)
        return Turn(
            kind=TurnKind.ADVISE,
            policy="memory",
            prompt_ids=(1, 2, 3),
            response_ids=ids,
            logprobs=(-0.5,) * len(ids),
            versions=(5,) * len(ids),
            sampling=Sampling(max_tokens=4),
            observation=situation.observation,
            response=text,
            actions=("generate" if text else "abstain",),
        )


async def play(policy: Any, order: Ticket, limits: Limits = LIMITS, **more: Any) -> Trial:
    session = await LocalEnvs(Hall).open()
    return await play_trial(order, session, policy, strategy_of(order.mode), limits, **more)


def loser() -> ScriptedPolicy:
    return ScriptedPolicy(lambda p, k: "remark x" if k is TurnKind.REFLECT else "right")


async def test_a_hint_is_asked_for_once_and_stands_in_every_prompt_of_the_trial() -> None:
    advisor, policy = Told(["go left"]), loser()
    trial = await play(policy, ticket("lr"), advisor=advisor)
    assert [s.observation for s in advisor.asked] == ["door 0 of 2"]
    assert advisor.asked[0].instruction == "leave the hall"
    acts = [prompt for kind, prompt in policy.asked if kind is TurnKind.ACT]
    assert len(acts) == 3
    assert all("hint: go left" in prompt for prompt in acts)
    assert trial.turns()[0].kind is TurnKind.ADVISE
    assert decode_trial(encode_trial(trial)) == trial


async def test_with_advice_for_every_episode_each_has_its_own() -> None:
    advisor, policy = Told(["one", "", "three"], every_episode=True), loser()
    trial = await play(policy, ticket("lr", memory="none"), advisor=advisor)
    told = ["hint: one" in p or "hint: three" in p for _, p in policy.asked]
    assert told == [True, False, True]
    assert [turn.response for turn in trial.advice] == ["one", "", "three"]


async def test_on_abstain_the_agents_prompts_are_byte_for_byte_those_without_memory() -> None:
    for late in (False, True):
        alone, silent = loser(), loser()
        advisor = Told([""])
        if late:

            async def advise(situation: Situation) -> Turn:
                return late_turn(situation.observation)

            advisor.advise = advise  # type: ignore[method-assign]
        await play(alone, ticket("lr"))
        trial = await play(silent, ticket("lr"), advisor=advisor)
        assert silent.asked == alone.asked
        assert trial.failure is None
        assert len(trial.advice) == 1


async def test_the_advice_of_a_saved_trial_is_not_asked_for_again() -> None:
    saved: list[Trial] = []
    whole = await play(loser(), ticket("lr"), advisor=Told(["go left"]), progress=saved.append)
    again, policy = Told(["something else"]), loser()
    resumed = await play(policy, ticket("lr"), advisor=again, saved=saved[0])
    assert again.asked == []
    assert resumed.advice == whole.advice
    assert all("hint: go left" in p for k, p in policy.asked if k is TurnKind.ACT)


async def test_a_hint_that_does_not_fit_is_left_out_last_and_counted() -> None:
    plain = len("act 0/1 memory:  history:  now: door 0 of 2")
    policy = ScriptedPolicy(lambda p, k: "right", longest_prompt=plain)
    trial = await play(policy, ticket("lr", episodes=1), advisor=Told(["a hint"]))
    assert [turn.memory_dropped for turn in trial.episodes[0].turns] == [1]
    assert trial.episodes[0].stop is StopReason.FAILURE


async def test_an_advisors_tokens_are_counted_apart_and_are_not_of_the_trials_limit() -> None:
    limits = Limits(max_turns=5, tokens=3)
    trial = await play(loser(), ticket("lr", memory="none"), limits, advisor=Told(["go left"]))
    assert trial.token_counts() == {"advise": 4, "act": 4}
    line = line_of(trial, "with_memory", 0)
    assert [(a.decision, a.hint_tokens, a.late) for a in line.advice] == [("generate", 2, False)]
    assert line.advice[0].p_generate == pytest.approx(0.6065, abs=1e-3)


async def test_a_frozen_agents_weights_do_not_make_an_advised_trial_old() -> None:
    order = ticket("lr", memory="none")
    order = replace(order, mode=replace(order.mode, method="mempi", advice="free"))
    trial = await play(loser(), order, advisor=Told(["go left"]))
    assert {v for turn in trial.episodes[0].turns for v in turn.versions or ()} == {3}
    assert trial.version_range() == (5, 5)


async def test_doors_guest_plays_by_hints_alone() -> None:
    options = {"rooms": 2, "doors": 4, "format": "compact"}
    guest = registry.scripted_agent("doors", options)
    env = registry.make("doors", options)
    rule: dict[str, str] = env.rule  # type: ignore[attr-defined]
    room = next(kind for kind, door in rule.items() if door != "red")
    house = next(str(i) for i in registry.instances("doors", options, "train") if str(i).startswith(room))
    order = ticket(house, episodes=1, memory="none", env="doors")
    for hint, wins in ((f"{room} {rule[room]}", True), (f"{room} red", False), ("", False)):
        session = await LocalEnvs(lambda: registry.make("doors", options)).open()
        trial = await play_trial(
            order,
            session,
            ScriptedAgentPolicy("agent", guest),
            strategy_of(order.mode),
            LIMITS,
            advisor=Told([hint]),
        )
        assert trial.success is wins
        assert all(turn.response_ids is None for turn in trial.episodes[0].turns)
    assert guest.respond(View(room)) == "red"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as it:
        yield it


async def test_another_attempt_goes_on_with_the_advice_that_was_saved(server: EmbeddedServer) -> None:
    died: list[str] = []

    class DiesOnce(ScriptedPolicy):
        async def respond(self, prompt: Any, kind: TurnKind, student: Any = None, view: Any = None) -> Any:
            if "act 1/" in prompt and not died:
                died.append(prompt)
                raise EngineError("engine agent-0 is dead")
            return await super().respond(prompt, kind)

    advisor, policy, envs = Told(["go left"]), DiesOnce(lambda p, k: "right"), LocalEnvs(Hall)

    async def player(order: Ticket, saved: Trial | None, progress: Progress) -> Trial:
        env = await envs.open()
        return await play_trial(
            order,
            env,
            policy,
            strategy_of(order.mode),
            LIMITS,
            saved=saved,
            progress=progress,
            advisor=advisor,
        )

    with ReplayBuffer(server.url, f"run-{uuid4().hex[:8]}", lease_s=2.0) as buffer:
        order = ticket("lr", name="g0-0", memory="none")
        task = replace(order.task, group="g0")
        buffer.submit([replace(order, member=0, group_size=1, task=task)])
        agent = AgentLoop("a", buffer, player, trials_in_flight=1)
        async with asyncio.timeout(30), running(agent):
            (group,) = await groups(buffer, 1)
            stats = agent.stats()
    assert stats.resumed == 1
    assert len(advisor.asked) == 1
    assert [turn.response for turn in group.trials[0].advice] == ["go left"]
    assert stats.advice == {"generate": 1, "tokens": 4}
    assert all("hint: go left" in prompt for _, prompt in policy.asked)


async def test_what_a_ticket_was_advised_is_not_asked_for_again_in_any_attempt(
    server: EmbeddedServer,
) -> None:
    said = await Told(["go left"]).advise(Situation("door 0 of 2"))
    advisor, policy, attempts = Told(["go right"]), loser(), 0

    async def player(order: Ticket, saved: Trial | None, progress: Progress) -> Trial:
        nonlocal attempts
        attempts += 1
        crash = "door 1 of 2" if attempts == 1 else None
        session = await LocalEnvs(lambda: Hall(crash_at=crash)).open()
        strategy = strategy_of(order.mode)
        return await play_trial(
            order, session, policy, strategy, LIMITS, saved=saved, progress=progress, advisor=advisor
        )

    def first_lost(prompt: str, kind: TurnKind) -> str:
        return "right" if "act 0/" in prompt else "left"

    policy = ScriptedPolicy(first_lost)
    with ReplayBuffer(server.url, f"run-{uuid4().hex[:8]}", lease_s=2.0) as buffer:
        order = ticket("lr", name="g0-0", memory="none")
        task = replace(order.task, group="g0")
        buffer.submit([replace(order, member=0, group_size=1, task=task, advised=(said,))])
        agent = AgentLoop("a", buffer, player, trials_in_flight=1)
        async with asyncio.timeout(30), running(agent):
            (group,) = await groups(buffer, 1)
            stats = agent.stats()
    assert attempts == 2
    assert not advisor.asked
    assert group.trials[0].advice == (said,)
    assert stats.advice == {}  # it was no agent's question
    assert all("hint: go left" in prompt for _, prompt in policy.asked)
