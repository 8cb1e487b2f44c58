"""The autoscaler's decision as a function: bounds, no flapping, monotone in load, signals that count."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from actors.autoscaler import EngineLoad, Memory, Signals, bounds_of, decide, loads
from agentmem.config import load_config
from agentmem.config.scaling import AutoscaleConfig, BoundsConfig

QUICK = AutoscaleConfig(patience_up=1, patience_down=1, pause=0)
fractions = st.floats(0.0, 3.0)
memories = st.builds(Memory, high=st.integers(0, 20), low=st.integers(0, 20), pause=st.integers(0, 8))


@st.composite
def rules(draw: st.DrawFn) -> AutoscaleConfig:
    target = draw(st.floats(0.05, 2.0))
    return AutoscaleConfig(
        target=target,
        low=draw(st.floats(0.0, target / 2)),
        high=target * draw(st.floats(1.01, 3.0)),
        patience_up=draw(st.integers(1, 4)),
        patience_down=draw(st.integers(1, 4)),
        pause=draw(st.integers(1, 4)),
    )


@st.composite
def bounds(draw: st.DrawFn) -> BoundsConfig:
    least = draw(st.integers(1, 20))
    return BoundsConfig(least=least, most=least + draw(st.integers(0, 60)))


@given(
    size=st.integers(1, 100), load=st.none() | fractions, memory=memories, rules=rules(), bounds=bounds(),
    wait=st.floats(0, 1),
)  # fmt: skip
def test_the_number_is_always_within_the_bounds(
    size: int, load: float | None, memory: Memory, rules: AutoscaleConfig, bounds: BoundsConfig, wait: float
) -> None:
    wanted, _ = decide(size, load, memory, rules, bounds, learner_wait=wait)
    assert bounds.least <= wanted <= bounds.most


@given(work=st.floats(0.0, 100.0), size=st.integers(1, 80), rules=rules(), bounds=bounds())
def test_work_that_stays_the_same_leads_to_one_number_in_steps_of_one_direction(
    work: float, size: int, rules: AutoscaleConfig, bounds: BoundsConfig
) -> None:
    size, memory = min(max(size, bounds.least), bounds.most), Memory()
    sizes = [size]
    for _ in range(400):
        size, memory = decide(size, work / size, memory, rules, bounds)
        sizes.append(size)
    steps = {b > a for a, b in itertools.pairwise(sizes) if a != b}
    assert len(steps) <= 1, "it grew and shrank"
    assert len(set(sizes[-200:])) == 1, "it never came to rest"


@given(
    size=st.integers(1, 100), one=fractions, other=fractions, memory=memories, rules=rules(), bounds=bounds()
)
def test_more_load_never_leads_to_fewer_parts(
    size: int, one: float, other: float, memory: Memory, rules: AutoscaleConfig, bounds: BoundsConfig
) -> None:
    low, high = sorted((one, other))
    less, _ = decide(size, low, memory, rules, bounds)
    more, _ = decide(size, high, memory, rules, bounds)
    assert less <= more


@given(size=st.integers(1, 100), load=fractions, memory=memories, rules=rules())
def test_a_step_at_most_doubles_or_halves(
    size: int, load: float, memory: Memory, rules: AutoscaleConfig
) -> None:
    wanted, _ = decide(size, load, memory, rules, BoundsConfig(least=1, most=1000))
    assert math.ceil(size / 2) <= wanted <= 2 * size


def test_a_load_must_last_before_anything_changes_and_an_effect_is_awaited() -> None:
    patient = AutoscaleConfig(patience_up=3, pause=2)
    wide, memory, size = BoundsConfig(least=1, most=16), Memory(), 2
    seen = []
    for _ in range(7):
        size, memory = decide(size, 2.0, memory, patient, wide)
        seen.append(size)
    assert seen == [2, 2, 4, 4, 4, 4, 4]
    size, memory = decide(size, 2.0, memory, patient, wide)
    assert size == 8
    size, memory = decide(8, 0.5, Memory(high=2), patient, wide)  # a look in between starts it anew
    assert (size, memory) == (8, Memory())


def test_nothing_grows_while_the_learner_has_enough() -> None:
    wide = BoundsConfig(least=1, most=16)
    assert decide(4, 2.0, Memory(), QUICK, wide, learner_wait=0.05)[0] == 4
    assert decide(4, 2.0, Memory(), QUICK, wide, learner_wait=0.5)[0] == 8
    assert decide(4, 0.1, Memory(), QUICK, wide, learner_wait=0.05)[0] == 2


def test_every_signal_moves_the_load_of_its_kind() -> None:
    base = Signals(
        env_busy=8, env_waiting=0, env_slots=16, trials=16, trial_places=32, queued=0, trials_per_s=2.0,
        advice_wait_s=0.5, engines={"agent": EngineLoad(4, 16), "memory": EngineLoad(4, 16, cache=0.8)},
    )  # fmt: skip
    found = loads(base, QUICK)
    assert found == {
        "env-workers": 0.5,
        "agents": 0.5,
        "generators": 0.25,
        "engines.agent": 0.25,
        "engines.memory": 0.8,
    }
    assert loads(Signals(env_busy=16, env_waiting=16, env_slots=16), QUICK) == {"env-workers": 2.0}
    full = Signals(trials=32, trial_places=32, queued=30, trials_per_s=2.0)
    assert loads(full, QUICK)["agents"] == 1.5  # a wait of 15 s of 30
    stuck = Signals(trials=32, trial_places=32, queued=30, trials_per_s=0.0)
    assert loads(stuck, QUICK)["agents"] == 2.0
    assert loads(Signals(), QUICK) == {}


def test_only_kinds_with_bounds_are_looked_after() -> None:
    assert bounds_of(QUICK) == {}
    given = ["env_workers={least: 2, most: 8}", "engines={agent: {least: 1, most: 4}}"]
    config = load_config(
        "lamer-minesweeper", ["env.placement=worker", *(f"scaling.autoscale.{each}" for each in given)]
    )
    assert config.scaling.autoscale is not None
    found = bounds_of(config.scaling.autoscale)
    assert found == {
        "env-workers": BoundsConfig(least=2, most=8),
        "engines.agent": BoundsConfig(least=1, most=4),
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"low": 0.4}, "at least twice low"),
        ({"high": 0.7}, "must be below high"),
        ({"agents": {"least": 3, "most": 2}}, "most is 2: must be at least least"),
    ],
)
def test_rules_that_would_flap_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        AutoscaleConfig.model_validate(settings)
