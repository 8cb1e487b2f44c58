"""EMPO²'s intrinsic reward."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.memory.novelty import Novelty, StateNovelty, with_intrinsic


def walk(seed, steps):
    """Embeddings in general position, some of them repeated and some zero."""
    rng = np.random.default_rng(seed)
    places = np.vstack([rng.normal(size=(6, 3)), np.zeros((1, 3))])
    return places[rng.integers(len(places), size=steps)]


visits = st.builds(walk, st.integers(0, 10_000), st.integers(0, 15))
fast = settings(deadline=None, max_examples=80)


def test_visits_of_one_state_pay_one_a_half_a_third():
    states = StateNovelty()
    assert [states.visit([1.0, 0.0]) for _ in range(3)] == [1.0, 1 / 2, 1 / 3]
    assert len(states) == 1


@fast
@given(visits, st.integers(1, 4), st.sampled_from([0.0, 0.5, 0.8, 0.95]))
def test_an_episode_at_once_pays_what_its_steps_one_by_one_pay(embeddings, chunk, tau):
    one_by_one, at_once = StateNovelty(tau, np.float64), StateNovelty(tau, np.float64)
    expected = [one_by_one.visit(row) for row in embeddings]
    got = [r for i in range(0, len(embeddings), chunk) for r in at_once.visit_all(embeddings[i : i + chunk])]
    assert got == expected
    assert len(at_once) == len(one_by_one)


@fast
@given(visits, st.floats(0.1, 100))
def test_only_the_direction_of_an_embedding_counts(embeddings, scale):
    plain, scaled = StateNovelty(0.8), StateNovelty(0.8)
    assert scaled.visit_all(embeddings * scale) == plain.visit_all(embeddings)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_threshold_of_one_still_recognises_the_very_same_embedding(dtype):
    embeddings = np.random.default_rng(0).normal(size=(50, 384))
    states = StateNovelty(1.0, dtype)
    assert states.visit_all(embeddings) == [1.0] * 50
    assert states.visit_all(embeddings) == [0.5] * 50


def test_a_state_does_not_drift_with_its_visits():
    def at(degrees):
        return [np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]

    states = StateNovelty(tau=np.cos(np.radians(25)))
    # 40° is within 25° of the visit at 20°, but not of the state, which stays at 0°.
    assert [states.visit(at(d)) for d in (0, 20, 40)] == [1.0, 0.5, 1.0]


def test_a_visit_belongs_to_the_nearest_of_several_states_in_reach():
    states = StateNovelty(tau=0.5)
    states.visit_all([[1.0, 0.0], [-0.2, 1.0]])
    assert states.visit([0.9, 0.5]) == 0.5
    assert states.state().visits.tolist() == [2, 1]


def test_the_zero_vector_is_a_state_of_its_own():
    states = StateNovelty()
    assert states.visit_all([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]) == [1.0, 1.0, 0.5]
    assert len(states) == 2


def test_counts_survive_a_checkpoint():
    before = Novelty()
    before.visit_all("task", [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    after = Novelty()
    after.restore(before.state())
    assert after.visit_all("task", [[0.0, 1.0], [0.0, 0.0]]) == [0.5, 0.5]
    assert before.visit_all("task", [[0.0, 1.0]]) == [0.5]


def test_a_state_known_in_one_task_is_new_in_another():
    novelty = Novelty()
    assert novelty.visit_all("a", [[1.0, 0.0]]) == novelty.visit_all("b", [[1.0, 0.0]]) == [1.0]
    assert novelty.visit_all("a", [[1.0, 0.0]]) == [0.5]


def test_many_states_are_all_remembered():
    states = StateNovelty(tau=0.9)
    identity = np.eye(100)
    assert states.visit_all(identity) == [1.0] * 100
    assert states.visit_all(identity) == [0.5] * 100


def test_an_episode_without_steps_pays_nothing():
    assert StateNovelty().visit_all(np.zeros((0, 4))) == []


@pytest.mark.parametrize(
    ("embedding", "message"), [([1.0, 0.0, 0.0], "have 2 numbers"), ([1.0, np.nan], "non-finite")]
)
def test_an_embedding_that_does_not_fit_is_refused_and_not_counted(embedding, message):
    states = StateNovelty()
    states.visit([1.0, 0.0])
    with pytest.raises(ValueError, match=message):
        states.visit(embedding)
    assert states.visit([1.0, 0.0]) == 0.5


def test_a_threshold_that_is_no_cosine_is_refused():
    with pytest.raises(ValueError, match="tau is 1.5"):
        Novelty(tau=1.5)


def test_the_bonus_is_in_the_scale_of_the_rewards_and_leaves_failures_alone():
    assert with_intrinsic([0.0, None, 10.0], [1.0, 0.5, 0.25], coefficient=0.1, reward_scale=10.0) == [
        1.0,
        None,
        10.25,
    ]
    with pytest.raises(ValueError, match="1 intrinsic rewards for 2 steps"):
        with_intrinsic([0.0, 0.0], [1.0])
