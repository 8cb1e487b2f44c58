"""What the trial loop promises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.rollout.local_env import LocalEnvs
from actors.rollout.strategies import strategy_of
from actors.rollout.trial import Limits, play_trial
from agentmem.failures import ConfigError, EngineError, FailureKind
from agentmem.trajectory import StopReason, Ticket, Trial, TurnKind, decode_trial, encode_trial
from tests.rollout.worlds import Hall, ScriptedPolicy, ticket

ROOMY = Limits(max_turns=7)


async def play(env: Hall, policy: Any, order: Ticket, limits: Limits = ROOMY, **more: Any) -> Trial:
    session = await LocalEnvs(lambda: env).open()
    return await play_trial(order, session, policy, strategy_of(order.mode), limits, **more)


async def test_success_ends_the_trial() -> None:
    env = Hall()
    policy = ScriptedPolicy(["right", "remark go left", "left", "right", "never asked"])
    trial = await play(env, policy, ticket("lr"))
    assert [e.stop for e in trial.episodes] == [StopReason.FAILURE, StopReason.SUCCESS]
    assert [e.reward for e in trial.episodes] == [-0.5, 1.25]
    assert [e.score for e in trial.episodes] == [0.0, 2.0]
    assert trial.success
    assert trial.failure is None
    assert len(policy.asked) == 4


async def test_a_trial_carries_its_task_in_words() -> None:
    first = await play(Hall(), ScriptedPolicy(["left"]), ticket("l"))
    assert first.instruction == "leave the hall"
    assert decode_trial(encode_trial(first)).instruction == "leave the hall"
    over = await play(Hall(), ScriptedPolicy([]), ticket("l"), saved=first)
    assert over.instruction == "leave the hall"


async def test_every_episode_starts_from_the_identical_observation() -> None:
    env = Hall()
    trial = await play(env, ScriptedPolicy(lambda p, k: "right"), ticket("lr"))
    assert {e.initial_observation for e in trial.episodes} == {"door 0 of 2"}
    assert env.restarts == 2


async def test_reflections_stand_between_episodes_and_reach_later_prompts() -> None:
    policy = ScriptedPolicy(["right", "remark first", "right", "remark second", "right"])
    trial = await play(Hall(), policy, ticket("lr", memory="both"))
    assert [k for k, _ in policy.asked] == [
        TurnKind.ACT,
        TurnKind.REFLECT,
        TurnKind.ACT,
        TurnKind.REFLECT,
        TurnKind.ACT,
    ]
    assert len(trial.episodes) == 3
    assert len(trial.reflections) == 2
    assert "reflect 0 stop=failure played: right saw: a wall" in policy.asked[1][1]
    last = policy.asked[-1][1]
    assert "[0 summary=went right reflection=first success=False]" in last
    assert "[1 summary=went right reflection=second success=False]" in last


async def test_a_reflection_without_its_tag_is_empty_and_invalid() -> None:
    policy = ScriptedPolicy(["right", "no tag", "left", "right"])
    trial = await play(Hall(), policy, ticket("lr", memory="reflection"))
    assert trial.reflections[0].invalid
    assert trial.reflections[0].response == "no tag"
    assert "[0 summary=None reflection= success=False]" in policy.asked[2][1]


@pytest.mark.parametrize(
    ("memory", "block", "reflections"),
    [
        ("none", "memory:  history", 0),
        ("history", "[0 summary=went right reflection=None", 0),
        ("reflection", "[0 summary=None reflection=x", 1),
        ("both", "[0 summary=went right reflection=x", 1),
    ],
)
async def test_the_memory_mode_decides_what_the_next_episode_is_shown(
    memory: str, block: str, reflections: int
) -> None:
    policy = ScriptedPolicy(lambda p, k: "remark x" if k is TurnKind.REFLECT else "right")
    trial = await play(Hall(), policy, ticket("lr", episodes=2, memory=memory))
    assert "memory:  history" in policy.asked[0][1]  # the first episode's block is empty
    assert block in policy.asked[-1][1]
    assert len(trial.reflections) == reflections


async def test_one_episode_is_plain_rl() -> None:
    policy = ScriptedPolicy(lambda p, k: "right")
    trial = await play(Hall(), policy, ticket("lr", episodes=1, memory="both"))
    assert len(trial.episodes) == 1
    assert not trial.reflections
    assert trial.episodes[0].summary == ""


async def test_trained_ids_are_the_sampled_ids() -> None:
    policy = ScriptedPolicy(["right", "remark x", "left", "right"])
    trial = await play(Hall(), policy, ticket("lr"))
    assert [t.response_ids for t in trial.turns()] == policy.given
    assert [t.prompt_ids for t in trial.turns()] == [tuple(p.encode()) for _, p in policy.asked]
    assert trial.version_range() == (3, 3)
    assert decode_trial(encode_trial(trial)) == trial


async def test_an_unreadable_action_is_an_invalid_turn_and_a_turn_lost() -> None:
    policy = ScriptedPolicy(["mumble", "left", "right"])
    trial = await play(Hall(), policy, ticket("lr"))
    first = trial.episodes[0].turns[0]
    assert first.invalid
    assert first.actions == ()
    assert first.reward == 0.0
    assert [t.invalid for t in trial.episodes[0].turns] == [True, False, False]
    assert trial.success


async def test_max_turns_is_a_step_limit() -> None:
    trial = await play(Hall(), ScriptedPolicy(lambda p, k: "mumble"), ticket(), Limits(max_turns=3))
    assert [e.stop for e in trial.episodes] == [StopReason.STEP_LIMIT] * 3
    assert [len(e.turns) for e in trial.episodes] == [3, 3, 3]


async def test_a_prompt_that_does_not_fit_stops_the_episode_before_the_call() -> None:
    policy = ScriptedPolicy(lambda p, k: "remark x" if k is TurnKind.REFLECT else "mumble", longest_prompt=60)
    trial = await play(Hall(), policy, ticket(memory="reflection"))
    assert trial.failure is None
    assert all(len(p) <= 60 for _, p in policy.asked)
    assert trial.episodes[0].stop is StopReason.CONTEXT_EXHAUSTED
    assert len(trial.episodes[0].turns) == 3
    # Memory that doesn't fit is left out, and counted; without it the next episodes go as far as the first.
    assert [len(e.turns) for e in trial.episodes] == [3, 3, 3]
    assert [e.turns[0].memory_dropped for e in trial.episodes] == [0, 1, 2]
    assert trial.episodes[1].reward == 0.0
    assert trial.valid


async def test_a_reflection_that_does_not_fit_keeps_its_place() -> None:
    policy = ScriptedPolicy(lambda p, k: "right", longest_prompt=45)
    trial = await play(Hall(), policy, ticket("lr", memory="reflection"))
    assert trial.reflections[0].response_ids == ()
    assert trial.reflections[0].invalid
    assert len(trial.reflections) == len(trial.episodes) - 1


async def test_the_token_limit_counts_the_whole_trial() -> None:
    policy = ScriptedPolicy(lambda p, k: "remark x" if k is TurnKind.REFLECT else "mumble", ids_per_answer=3)
    trial = await play(Hall(), policy, ticket(), Limits(max_turns=2, tokens=12))
    assert [e.stop for e in trial.episodes] == [StopReason.STEP_LIMIT, StopReason.TOKEN_LIMIT]
    assert sum(trial.token_counts().values()) == 12


async def test_progress_is_reported_behind_each_episode_but_the_last() -> None:
    seen: list[Trial] = []
    await play(Hall(), ScriptedPolicy(lambda p, k: "right"), ticket(), progress=seen.append)
    assert [(len(t.episodes), len(t.reflections)) for t in seen] == [(1, 0), (2, 1)]


@pytest.mark.parametrize("memory", ["none", "history", "reflection", "both"])
@pytest.mark.parametrize("at", [0, 1])
async def test_a_trial_resumed_behind_any_episode_is_the_trial_played_through(memory: str, at: int) -> None:
    def answer(prompt: str, kind: TurnKind) -> str:
        return f"remark {len(prompt)}" if kind is TurnKind.REFLECT else "right"

    seen: list[Trial] = []
    whole = await play(Hall(), ScriptedPolicy(answer), ticket(memory=memory), progress=seen.append)
    again = ScriptedPolicy(answer)
    resumed = await play(Hall(), again, ticket(memory=memory), saved=decode_trial(encode_trial(seen[at])))
    assert [e.stop for e in resumed.episodes] == [e.stop for e in whole.episodes]
    assert resumed.episodes[: at + 1] == seen[at].episodes
    assert [t.prompt_ids for t in resumed.turns()] == [t.prompt_ids for t in whole.turns()]
    assert len(again.asked) < len(whole.turns())


async def test_a_trial_saved_complete_is_not_played_again() -> None:
    order = ticket()
    whole = await play(Hall(), ScriptedPolicy(["left", "right"]), order)
    policy = ScriptedPolicy([])
    assert (await play(Hall(), policy, order, saved=whole)).episodes == whole.episodes
    assert not policy.asked


async def test_a_crash_of_the_environment_fails_the_attempt_with_reward_none_and_keeps_progress() -> None:
    seen: list[Trial] = []
    answers = ["right", "remark x", "left", "right"]
    trial = await play(Hall(crash_at="door 1 of 2"), ScriptedPolicy(answers), ticket(), progress=seen.append)
    assert trial.failure is not None
    assert trial.failure.kind is FailureKind.INFRASTRUCTURE
    assert trial.failure.where == "hall lr"
    assert [e.reward for e in trial.episodes] == [-0.5, None]
    assert trial.episodes[1].stop is StopReason.ENV_FAILURE
    assert len(trial.episodes[1].turns) == 1
    assert not trial.valid
    assert [e.reward for e in seen[-1].episodes] == [-0.5]


async def test_a_dead_engine_fails_the_attempt() -> None:
    def dies(prompt: str, kind: TurnKind) -> str:
        raise EngineError("engine agent-0 is dead")

    trial = await play(Hall(), ScriptedPolicy(dies), ticket())
    assert trial.failure is not None
    assert trial.failure.kind is FailureKind.INFRASTRUCTURE
    assert trial.episodes[0].reward is None


async def test_an_unexpected_exception_is_a_data_failure_that_names_itself() -> None:
    trial = await play(Hall(bug_at="door 1 of 2"), ScriptedPolicy(["left", "left"]), ticket())
    assert trial.failure is not None
    assert trial.failure.kind is FailureKind.DATA
    assert "KeyError" in trial.failure.what


async def test_cancellation_is_not_swallowed() -> None:
    class Waits(ScriptedPolicy):
        async def respond(self, prompt: Any, kind: TurnKind, student: Any = None, view: Any = None) -> Any:
            await asyncio.Event().wait()

    task = asyncio.create_task(play(Hall(), Waits([]), ticket()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_environment_in_which_something_raised_is_not_used_again() -> None:
    made: list[Hall] = []

    def make() -> Hall:
        made.append(Hall(bug_at="door 1 of 2" if not made else None))
        return made[-1]

    envs = LocalEnvs(make)
    for _ in range(3):
        session = await envs.open()
        order = ticket()
        await play_trial(order, session, ScriptedPolicy(["left", "right"]), strategy_of(order.mode), ROOMY)
        await session.close()
    assert [env.closed for env in made] == [True, False]


def test_an_unknown_memory_or_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="'everything'.*history"):
        strategy_of(ticket(memory="everything").mode)
