"""A whole EMPO² run: modes, tips, off-policy updates, evaluation without memory; tips outlive it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from agentmem.memory.modes import ModeDraw
from agentmem.replay import ReplayBuffer
from agentmem.replay.embedded import EmbeddedServer
from tests.e2e.runs import TINY, Run

EMPO2 = (
    "method=empo2",
    "memory.embedder=words",
    "memory.tips.scope=environment",
    "memory.tips.max_tokens=1",
    "memory.tips.p=0.7",
    "memory.tips.q=0.5",
    "memory.novelty.scope=environment",
    "rollout.episodes=1",
    "rollout.memory=none",
    "credit.estimator=grpo",
    "credit.baseline=trial",
    "evaluation.episodes=1",
    "evaluation.conditions=[without_memory]",
)


def test_each_batch_is_trained_in_its_mode_and_tips_outlive_the_run(start: Callable[..., Run]) -> None:
    run = start(
        "lamer-minesweeper-reflect",
        *TINY,
        *EMPO2,
        "learner.updates=8",
        "learner.checkpoint_every=4",
        "seed=5",
    )
    assert run.end() == 0, run.output()
    updates = run.records("update")
    draw = ModeDraw(5, p=0.7, q=0.5)
    drawn = [draw.of(u).value for u in range(8)]
    assert set(drawn) == {"plain", "tips", "off_policy"}, "another seed, please"
    played: Counter[str] = Counter()
    for record in updates:
        for mode, (trials, solved) in record["modes"].items():
            assert 0 <= solved <= trials
            played[mode] += trials
        off = record["off_policy"]
        assert ("off_policy_masked" in off) == ("off_policy" in record["modes"])
        assert ("on_policy_ess" in off) == bool({"plain", "tips"} & set(record["modes"]))
        assert record["intrinsic_mean"] > 0
    trials = sum(r["trials"] for r in updates)
    assert sum(played.values()) == trials
    per_update = trials // 8
    assert played == {mode: per_update * count for mode, count in Counter(drawn).items()}

    with EmbeddedServer(run.path / "replay") as server:
        buffer = ReplayBuffer(server.url, run.path.name, only_look=True)
        assert buffer.tip_namespaces() == ["train"]
        log = buffer.read_tips("train", "minesweeper")
        # One tip an episode, and an entry for each of its turns; evaluations left none.
        assert 0 < len({tip.source for tip in log.entries}) <= trials
        assert all(tip.source.startswith("g") for tip in log.entries)
        buffer.close()


def test_a_language_model_writes_sentences_that_minilm_finds_again(start: Callable[..., Run]) -> None:
    """The full form: SmolLM2 plays, its tips are sentences, and situations are found by their meaning."""
    run = start(
        "lamer-minesweeper",
        "policies.agent.model=smollm2",
        *(setting for setting in EMPO2 if "embedder" not in setting and "max_tokens" not in setting),
        "memory.embedder=minilm",
        "memory.tips.max_tokens=24",
        "memory.tips.p=1.0",
        "memory.tips.q=1.0",
        "objective.mask_delta=0.0",
        "credit.drop_zero_advantage=false",
        "env.max_turns=2",
        "rollout.group_size=2",
        "rollout.tasks_per_update=1",
        "rollout.sampling.max_tokens=16",
        "learner.updates=3",
        "evaluation.tasks=0",
        "replay.max_staleness=0",
    )
    assert run.end(600) == 0, run.output()
    updates = run.records("update")
    assert [set(record["modes"]) for record in updates] == [{"off_policy"}] * 3
    assert all(record["off_policy"]["off_policy_tokens"] > 0 for record in updates)
    with EmbeddedServer(run.path / "replay") as server:
        buffer = ReplayBuffer(server.url, run.path.name, only_look=True)
        entries = buffer.read_tips("train", "minesweeper").entries
        buffer.close()
    assert 2 <= len({tip.source for tip in entries}) <= 6
    assert all(tip.dimension == 384 for tip in entries)
    assert any(len(tip.text.split()) > 3 for tip in entries)
