"""A consumed group counts as trained if any of its tokens had a gradient, as filtered otherwise."""

from __future__ import annotations

from agentmem.app.training.update_record import outcomes
from agentmem.replay import Group, Outcome
from learner.result import UpdateResult
from learner.row import TrialRecord
from tests.replay.makers import make_group, make_trial


def group_of(name: str) -> Group:
    trials = tuple(make_trial(ticket) for ticket in make_group(name))
    return Group(id=name, size=2, sequence=1, trials=trials, payload_bytes=1, versions=(0, 0))


def result_of(tokens: dict[str, int]) -> UpdateResult:
    records = [TrialRecord(ticket, 0, 1.0, (), count) for ticket, count in tokens.items()]
    return UpdateResult(version=1, applied=True, metrics={}, records=records)


def test_a_group_without_a_trained_token_is_filtered() -> None:
    groups = [group_of("mixed"), group_of("alike"), group_of("unusable")]
    result = result_of({"mixed-0": 0, "mixed-1": 7, "alike-0": 0, "alike-1": 0})
    assert outcomes(groups, result) == {
        Outcome.TRAINED: ["mixed"],
        Outcome.FILTERED: ["alike", "unusable"],
    }


def test_an_outcome_that_no_group_had_is_left_out() -> None:
    assert outcomes([group_of("g")], result_of({"g-0": 3})) == {Outcome.TRAINED: ["g"]}
