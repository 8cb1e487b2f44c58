"""Whole runs of Mem-π: a memory policy is trained beside an agent that stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentmem.chat import DecisionTokens
from agentmem.evaluation.lines import read_lines
from tests.e2e.runs import Run
from tests.e2e.test_stage1_run import bank

SMALL = (
    "policies.memory.warmup.steps=30",
    "policies.memory.warmup.batch_rows=64",
    "engines.memory.backend=torch",
    "engines.memory.max_num_seqs=32",
    "rollout.tasks_per_update=4",
    "rollout.group_size=5",
    "advice.group=4",
    "evaluation.tasks=16",
    "learner.updates=3",
    "learner.checkpoint_every=2",
)
FROZEN = (
    "policies.agent.model=tiny",
    "policies.agent.warmup.steps=30",
    "policies.agent.warmup.batch_rows=64",
    "engines.agent.backend=torch",
    "engines.agent.max_num_seqs=32",
)


def test_a_memory_policy_is_trained_and_a_frozen_agents_engine_keeps_its_weights(
    start: Callable[..., Run],
) -> None:
    run = start("mempi-doors", *SMALL, *FROZEN, "replay.max_staleness=0")
    assert run.end() == 0, run.output()
    updates = run.records("update")
    assert [record["version"] for record in updates] == [1, 2, 3]
    for record in updates:
        assert record["trials"] == 20
        assert record["advice"]["abstain_share"] == 2 / 5
        assert record["advice"]["contexts"] == 4
        assert 0 <= record["advice"]["p_generate"] <= 1
        assert 0 < record["advice_tokens"] < record["sampled_tokens"]
        assert record["advice"]["asked"] == 8  # two runs of each context's abstention
        assert 0 <= record["advice"]["abstains"] <= 1
        assert record["advice"]["easy"] + record["advice"]["hard"] == 8
        assert 0 <= record["advice"]["dead_share"] <= 1
        assert record["advice"]["asked"] == 8  # two runs of each context's abstention
        assert 0 <= record["advice"]["abstains"] <= 1
        assert record["advice"]["easy"] + record["advice"]["hard"] == 8
        assert 0 <= record["advice"]["dead_share"] <= 1
    # What was trained is the memory policy: its final model has the decisions.
    assert DecisionTokens.of(run.path / "final_model")
    lines = read_lines(run.path / "trials.jsonl")
    advised = [line for line in lines if line.condition == "with_memory"]
    alone = [line for line in lines if line.condition == "without_memory"]
    assert all(len(line.advice) == 1 and not line.advice[0].late for line in advised)
    assert all(line.advice[0].p_generate is not None for line in advised)
    assert not any(line.advice for line in alone)
    assert _versions(run.path) == {"agent": {0}, "memory": {0, 1, 2}}
    for told in run.records("advice"):
        assert (told["asked"], told["late"], sum(told["p_generate"])) == (16, 0, 16)
        assert told["easy"] + told["hard"] == 16
    assert [told["update"] for told in run.records("advice")] == [0, 3]


def test_a_scripted_agent_is_advised_and_a_resumed_run_goes_on(start: Callable[..., Run]) -> None:
    run = start("mempi-doors", *SMALL, "evaluation.tasks=0", "replay.max_staleness=0")
    assert run.end() == 0, run.output()
    assert _versions(run.path) == {"memory": {0, 1, 2}}
    again = start("mempi-doors", "learner.updates=5", resume="last")
    assert again.end() == 0, again.output()
    assert [record["update"] for record in again.records("update")] == [1, 2, 3, 4, 5]


def test_hints_of_a_bank_are_learnt_in_the_same_updates_in_one_unified_stage(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    chosen = (
        f"advice.stage1.bank={bank(tmp_path / 'bank.jsonl')}",
        "advice.stage1.max_prompt=32",
        "advice.stage1.max_target=8",
        "advice.distil_coef=1.0",
        "advice.distil_batch=16",
        "learner.updates=5",
        "learner.lr=0.003",
        "evaluation.tasks=0",
    )
    run = start("mempi-doors", *SMALL, *chosen)
    assert run.end() == 0, run.output()
    losses = [record["advice"]["example_loss"] for record in run.records("update")]
    assert len(losses) == 5
    assert losses[-1] < losses[0]
    for record in run.records("update"):
        assert record["trained_tokens"] >= 16 * 3  # each record's hint is two words and its end


def _versions(run: Path) -> dict[str, set[int]]:
    """Weight versions that sampled tokens of the example trials, by policy."""
    from agentmem.app.reporting.examples import load_examples

    found: dict[str, set[int]] = {}
    for example in load_examples(run / "examples.msgpack"):
        for turn in example.trial.turns():
            if turn.versions and example.update:
                found.setdefault(turn.policy, set()).update(turn.versions)
    return found
