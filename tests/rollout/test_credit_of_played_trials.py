"""Trials as they are really played (engine, environment, memory), through credit assignment to rows.

Every memory mode, both forms of the return and every estimator are a combination that trains; where two of
them mean something different, the advantages differ.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from actors.engine.factory import build_engine
from actors.engine.protocol import EngineConfig
from actors.rollout.local_env import LocalEnvs
from actors.rollout.policy import EnginePolicy
from actors.rollout.strategies import strategy_of
from actors.rollout.trial import Limits, play_trial
from agentmem.chat import ChatCodec
from agentmem.config.learning import CreditConfig
from agentmem.sampling import Sample, SampleRequest, Sampling
from agentmem.trajectory import Mode, Task, Ticket, Trial, TurnKind
from envs import registry
from learner.row import Row, RowBatch
from learner.rows import build_rows, shape_values, value_rows

OPTIONS: dict[str, Any] = {"size": 4, "mines": 3, "format": "compact", "max_clicks": 6}
"""With the default rewards, by which even poor play differs from trial to trial."""
MEMORIES = ("none", "history", "reflection", "both")
GROUPS, MEMBERS, EPISODES, TURNS = 2, 6, 3, 4
SAMPLING = {
    TurnKind.ACT: Sampling(temperature=1.0, max_tokens=1),
    TurnKind.REFLECT: Sampling(temperature=1.0, max_tokens=2),
}
ESTIMATORS: dict[str, dict[str, Any]] = {
    "gigpo": {"estimator": "gigpo"},
    "grpo, trials": {"estimator": "grpo", "baseline": "trial", "norm": "mean"},
    "grpo, episodes": {"estimator": "grpo", "baseline": "episode", "norm": "mean"},
    "grpo, standard deviation": {"estimator": "grpo", "baseline": "episode", "norm": "mean_std"},
    "rloo, trials": {"estimator": "rloo", "baseline": "trial"},
    "rloo, episodes": {"estimator": "rloo", "baseline": "episode"},
    "ppo": {"estimator": "ppo"},
}


class Numbered:
    """The engine as a sampler: requests with numbers of their own."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._numbers = engine, itertools.count()

    async def sample(self, prompt_ids: tuple[int, ...], sampling: Sampling) -> Sample:
        request = SampleRequest(id=str(next(self._numbers)), prompt_ids=prompt_ids, sampling=sampling)
        answer: Sample = await self._engine.sample(request)
        return answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(tiny_model: Path) -> AsyncIterator[dict[str, list[list[Trial]]]]:
    """Memory mode -> groups of trials on the same boards."""
    engine = build_engine(EngineConfig(model=str(tiny_model), kind="torch", request_s=60.0), name="e0")
    await engine.start()
    policy = EnginePolicy("agent", Numbered(engine), ChatCodec(tiny_model), SAMPLING, context_length=64)
    envs = LocalEnvs(lambda: registry.make("minesweeper", OPTIONS))
    boards = list(registry.instances("minesweeper", OPTIONS, "train"))[:GROUPS]

    async def trial(memory: str, group: int, member: int) -> Trial:
        ticket = Ticket(
            id=f"{memory}-{group}-{member}",
            task=Task(environment="minesweeper", instance=boards[group], group=f"g{group}"),
            member=member,
            group_size=MEMBERS,
            mode=Mode(episodes=EPISODES, memory=memory),
        )
        session = await envs.open()
        done = await play_trial(ticket, session, policy, strategy_of(ticket.mode), Limits(max_turns=TURNS))
        await session.close()
        return done

    groups: dict[str, list[list[Trial]]] = {}
    for memory in MEMORIES:
        groups[memory] = [
            list(await asyncio.gather(*(trial(memory, group, member) for member in range(MEMBERS))))
            for group in range(GROUPS)
        ]
    yield groups
    await engine.close()


def credited(groups: list[list[Trial]], **credit: Any) -> RowBatch:
    """The batch of an update; PPO's values are a quarter everywhere."""
    values = None
    if credit["estimator"] == "ppo":
        rows, places = value_rows(groups)
        values = shape_values(groups, places, [0.25] * len(rows))
    return build_rows(groups, CreditConfig(drop_zero_advantage=False, **credit), values=values)


def advantages(groups: list[list[Trial]], **credit: Any) -> list[float]:
    return [row.advantage for row in credited(groups, **credit).rows]


@pytest.mark.parametrize("form", ["paper", "chained"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_every_combination_gives_each_turn_a_finite_advantage_and_some_a_gradient(
    played: dict[str, list[list[Trial]]], memory: str, estimator: str, form: str
) -> None:
    groups = played[memory]
    batch = credited(groups, return_form=form, **ESTIMATORS[estimator])
    trials = [trial for group in groups for trial in group]
    assert all(trial.valid for trial in trials)
    acts = sum(len(episode.turns) for trial in trials for episode in trial.episodes)
    written = sum(len(trial.reflections) for trial in trials)
    assert [row.kind for row in batch.rows].count(TurnKind.ACT) == acts
    assert [row.kind for row in batch.rows].count(TurnKind.REFLECT) == written
    assert (written > 0) == (memory in ("reflection", "both"))
    assert all(math.isfinite(row.advantage) for row in batch.rows)
    assert batch.stats.advantage_rms > 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_the_forms_of_the_return_differ_by_their_credit_across_episodes_alone(
    played: dict[str, list[list[Trial]]], memory: str, estimator: str
) -> None:
    groups, how = played[memory], ESTIMATORS[estimator]
    paper, chained = (advantages(groups, return_form=f, **how) for f in ("paper", "chained"))
    assert paper != pytest.approx(chained, abs=1e-6)
    paper, chained = (advantages(groups, return_form=f, gamma_traj=0.0, **how) for f in ("paper", "chained"))
    assert paper == pytest.approx(chained, abs=1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_credit_of_later_episodes_reaches_first_episodes_and_never_the_last_ones(
    played: dict[str, list[list[Trial]]], memory: str, estimator: str
) -> None:
    groups, how = played[memory], ESTIMATORS[estimator]
    near, far = (credited(groups, gamma_traj=gamma, **how).rows for gamma in (0.0, 0.9))
    assert of_episode(groups, near, 0) != pytest.approx(of_episode(groups, far, 0), abs=1e-6)
    if how.get("baseline") == "episode" or estimator == "ppo":
        last = EPISODES - 1
        assert of_episode(groups, near, last) == pytest.approx(of_episode(groups, far, last), abs=1e-9)


@pytest.mark.parametrize("memory", MEMORIES)
def test_estimators_baselines_and_norms_are_not_the_same_thing(
    played: dict[str, list[list[Trial]]], memory: str
) -> None:
    found = {name: advantages(played[memory], **how) for name, how in ESTIMATORS.items()}
    for one, other in itertools.combinations(found, 2):
        assert found[one] != pytest.approx(found[other], abs=1e-6), (one, other)


def of_episode(groups: list[list[Trial]], rows: list[Row], index: int) -> list[float]:
    """Advantages of the act rows of the episodes of an index, in the order of trials."""
    found: list[float] = []
    following = iter(rows)
    for trial in itertools.chain.from_iterable(groups):
        for episode in trial.episodes:
            mine = [next(following).advantage for _ in episode.turns]
            found += mine if episode.index == index else []
        for _ in trial.reflections:
            next(following)
    return found
