"""One rank in this process: real DeepSpeed, real updates."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from agentmem.config.learning import CreditConfig, LearnerConfig, ObjectiveConfig
from agentmem.config.schema import LoraConfig
from agentmem.failures import ConfigError, NumericsError
from agentmem.sampling import Sampling
from agentmem.trajectory import Trial, Turn
from agentmem.weights.files import FilesReceiver
from learner.batching.tensors import shards
from learner.rank import LearnerRank
from learner.row import Row
from learner.settings import RankSettings
from tests.learner_group.support import VOCABULARY, groups, save_model

LEARNER = LearnerConfig(lr=1e-2, minibatches=2, updates=20, warmup_updates=0, max_bad_updates=3)
Make = Callable[..., LearnerRank]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A rank on a small random model; keyword arguments are settings."""
    model = save_model(tmp_path / "model")

    def build(**settings: Any) -> LearnerRank:
        known = {"learner": LEARNER, "weights_dir": str(tmp_path / "weights"), **settings}
        return LearnerRank(RankSettings(policy="agent", model=model, **known), device=torch.device("cpu"))

    return build


def flat(rank: LearnerRank) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in rank.model.parameters()])


def row(response: int, advantage: float, trial: int = 0, prompt: tuple[int, ...] = (3, 4, 5)) -> Row:
    return Row(prompt, (response,), (-4.0,), (0,), Sampling(max_tokens=1), advantage, trial)


def shard_of(rows: list[Row], minibatches: int = 1) -> Any:
    return shards(rows, strategy="sorted", budget=1000, minibatches=minibatches)[0][0]


def probability(rank: LearnerRank, prompt: tuple[int, ...], token: int) -> float:
    with torch.no_grad():
        logits = rank.model.model(input_ids=torch.tensor([prompt])).logits[0, -1]
    return float(torch.softmax(logits, -1)[token])


def sampled(whole: Trial, rank: LearnerRank, sampling: Sampling) -> Trial:
    """The trial with the log-probs that an exact sampler of this model would have reported."""
    model = rank.model.model

    def exact(turn: Turn) -> Turn:
        assert turn.response_ids is not None
        ids = torch.tensor([turn.prompt_ids + turn.response_ids])
        with torch.no_grad():
            logp = torch.log_softmax(model(input_ids=ids).logits[0] / sampling.temperature, -1)
        first = len(turn.prompt_ids) - 1
        found = [float(logp[first + j, token]) for j, token in enumerate(turn.response_ids)]
        return msgspec.structs.replace(turn, logprobs=tuple(min(0.0, p) for p in found), sampling=sampling)

    episodes = tuple(
        msgspec.structs.replace(e, turns=tuple(exact(t) for t in e.turns)) for e in whole.episodes
    )
    return msgspec.structs.replace(
        whole, episodes=episodes, reflections=tuple(exact(t) for t in whole.reflections)
    )


def test_what_was_better_than_its_peers_becomes_likelier(make: Make) -> None:
    rank = make()
    good, bad = probability(rank, (3, 4, 5), 7), probability(rank, (3, 4, 5), 9)
    for _ in range(10):
        applied, _ = rank.update(shard_of([row(7, 1.0), row(9, -1.0, 1)]))
        assert applied
    assert probability(rank, (3, 4, 5), 7) > 2 * good
    assert probability(rank, (3, 4, 5), 9) < bad


def test_an_update_raises_the_version_and_reports(make: Make) -> None:
    result = make().update_groups(groups(0), 4)
    assert result.version == 5
    assert result.metrics["tokens_trained"] == result.rows.trained_tokens > 0
    assert result.metrics["steps"] == 2
    assert all(math.isfinite(v) for v in result.metrics.values())
    assert len(result.records) == 12
    assert sum(r.tokens for r in result.records) == result.rows.trained_tokens


@pytest.mark.parametrize("old", ["recompute", "engine"])
def test_on_policy_at_temperature_06_the_mean_ratio_is_one(make: Make, old: str) -> None:
    rank = make(
        learner=LearnerConfig(lr=1e-9, warmup_updates=0),
        objective=ObjectiveConfig(old=old),  # type: ignore[arg-type]
    )
    played = [[sampled(t, rank, Sampling(temperature=0.6)) for t in g] for g in groups(1)]
    metrics = rank.update_groups(played, 0).metrics
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-3)
    assert metrics["mismatch_kl"] == pytest.approx(0.0, abs=1e-4)
    assert metrics["clip_fraction"] == 0.0


def test_groups_that_were_trained_before_have_their_ratio_against_the_engine(make: Make) -> None:
    rank = make(learner=LearnerConfig(lr=1e-9, warmup_updates=0))
    first, old = groups(1)[:2]  # of both, the engine is said to have reported -4 for every token
    now = rank.update_groups([[sampled(t, rank, Sampling()) for t in first], old], 0).metrics
    replayed = rank.update_groups([[sampled(t, rank, Sampling()) for t in first], old], 0, 1).metrics
    assert now["ratio_mean"] == pytest.approx(1.0, abs=1e-4)
    assert abs(replayed["ratio_mean"] - 1.0) > 1e-2


def test_log_probs_of_another_temperature_show_as_a_mismatch(make: Make) -> None:
    rank = make(learner=LearnerConfig(lr=1e-9, warmup_updates=0))
    played = [[sampled(t, rank, Sampling(temperature=0.6)) for t in g] for g in groups(1)]

    def restamp(turn: Turn) -> Turn:
        return msgspec.structs.replace(turn, sampling=Sampling())

    wrong = [
        [
            msgspec.structs.replace(
                t,
                episodes=tuple(
                    msgspec.structs.replace(e, turns=tuple(restamp(x) for x in e.turns)) for e in t.episodes
                ),
                reflections=tuple(restamp(x) for x in t.reflections),
            )
            for t in g
        ]
        for g in played
    ]
    assert abs(rank.update_groups(wrong, 0).metrics["mismatch_kl"]) > 0.1


def test_at_a_learning_rate_of_nearly_zero_the_mismatch_stays_flat(make: Make) -> None:
    rank = make(learner=LearnerConfig(lr=1e-12, minibatches=4, warmup_updates=0))
    played = [[sampled(t, rank, Sampling()) for t in g] for g in groups(2)]
    seen = [rank.update_groups(played, v).metrics["mismatch_kl"] for v in range(4)]
    assert max(seen) - min(seen) < 1e-5


def test_old_log_probs_are_those_of_the_start_of_the_update(make: Make) -> None:
    rank = make(learner=LearnerConfig(lr=5e-2, minibatches=4, epochs=2, warmup_updates=0))
    metrics = rank.update_groups(groups(3), 0).metrics
    assert metrics["clip_fraction"] > 0
    assert metrics["steps"] == 8


def test_an_update_without_a_usable_row_is_skipped_and_counted(make: Make) -> None:
    rank = make(credit=CreditConfig(estimator="grpo"))
    before = flat(rank)
    (group,) = groups(4, tasks=1)
    same = [msgspec.structs.replace(group[0], member=m) for m in range(4)]
    result = rank.update_groups([same], 3)
    assert (result.applied, result.version, result.metrics["empty"]) == (False, 3, 1.0)
    assert torch.equal(flat(rank), before)
    assert rank.skipped_updates == 1


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_a_gradient_that_is_not_finite_changes_nothing_and_stops_the_run_after_k(
    make: Make, stage: int
) -> None:
    rank = make(learner=LEARNER.model_copy(update={"zero_stage": stage}))
    before = rank.outlet.probe()
    poison = shard_of([row(7, math.inf), row(9, -1.0, 1)])
    for _ in range(2):
        applied, metrics = rank.update(poison)
        assert not applied
        assert metrics["skipped_steps"] == 1
        assert all(math.isfinite(v) for v in metrics.values())
    assert rank.outlet.probe() == before
    applied, _ = rank.update(shard_of([row(7, 1.0), row(9, -1.0, 1)]))
    assert applied
    assert rank.bad_in_row == 0
    for _ in range(2):
        rank.update(poison)
    with pytest.raises(NumericsError, match="3 updates in a row"):
        rank.update(poison)


def test_resuming_continues_bit_for_bit(make: Make, tmp_path: Path) -> None:
    rank = make()
    for v in range(2):
        rank.update_groups(groups(v), v)
    folder = rank.save_checkpoint(str(tmp_path / "checkpoints"), 2, {"cursor": 5})
    straight = [rank.update_groups(groups(v), v).metrics["grad_norm"] for v in (2, 3)]
    expected = flat(rank)
    resumed = make()
    assert resumed.load_checkpoint(folder) == {"cursor": 5}
    assert [resumed.update_groups(groups(v), v).metrics["grad_norm"] for v in (2, 3)] == straight
    assert torch.equal(flat(resumed), expected)


def test_a_checkpoint_of_another_number_of_ranks_is_refused(make: Make, tmp_path: Path) -> None:
    rank = make()
    folder = Path(rank.save_checkpoint(str(tmp_path / "checkpoints"), 1, {}))
    marker = json.loads((folder / "COMMIT.json").read_text())
    marker["extra"]["world"] = 2
    (folder / "COMMIT.json").write_text(json.dumps(marker))
    with pytest.raises(ConfigError, match="written by 2 ranks"):
        rank.load_checkpoint(str(folder))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lora": LoraConfig(rank=4)},
        {"learner": LEARNER.model_copy(update={"zero_stage": 3})},
        {"learner": LEARNER.model_copy(update={"zero_stage": 3}), "lora": LoraConfig(rank=4)},
    ],
    ids=["plain", "lora", "zero3", "zero3-lora"],
)
def test_published_and_final_weights_are_those_of_the_probe(
    make: Make, tmp_path: Path, settings: dict[str, Any]
) -> None:
    from transformers import AutoModelForCausalLM

    rank = make(**settings)
    rank.update_groups(groups(0), 0)
    update = rank.outlet.publish(1, ["engine"])
    assert update is not None
    assert update.probe is not None
    tensors = FilesReceiver().receive(update).tensors
    assert tensors is not None
    rank.final_model(str(tmp_path / "final"))
    final = AutoModelForCausalLM.from_pretrained(tmp_path / "final", dtype=torch.float32)
    assert {n: tuple(t.shape) for n, t in tensors.items()} == {
        n: tuple(p.shape) for n, p in final.named_parameters()
    }
    for name, parameter in final.named_parameters():
        assert torch.equal(parameter, tensors[name])
    served = []
    for ids in update.probe.sequences:
        with torch.no_grad():
            logp = torch.log_softmax(final(input_ids=torch.tensor([ids])).logits[0, :-1], -1)
        served.append(logp.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0].tolist())
    assert update.probe.mismatch(served) is None
    assert (tmp_path / "final" / "tokenizer.json").read_text() == '{"version": "test"}'


class Collected:
    """A wire whose other end is a dictionary."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.sizes: list[int] = []

    def send(self, bucket: Any, metas: Any) -> None:
        self.sizes.append(len(bucket))
        self.tensors.update({meta.name: tensor for meta, tensor in zip(metas, bucket, strict=True)})


@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize("lora", [None, LoraConfig(rank=4)], ids=["full", "lora"])
def test_a_collective_transport_sends_what_files_would_hold(
    make: Make, stage: int, lora: LoraConfig | None
) -> None:
    rank = make(learner=LEARNER.model_copy(update={"zero_stage": stage}), lora=lora)
    rank.update_groups(groups(0), 0)
    files = rank.outlet.publish(1)
    assert files is not None
    wire = Collected()
    manifest = rank.outlet.manifest(1, "nccl", "tcp://host:1/2/1")
    rank.outlet.send(manifest, lambda _: wire)
    assert wire.sizes == list(manifest.buckets)
    assert manifest.tensors == files.tensors
    assert manifest.probe == files.probe
    held = FilesReceiver().receive(files).tensors
    assert held is not None
    assert all(torch.equal(held[name], tensor) for name, tensor in wire.tensors.items())


def test_weights_before_and_after_an_update_have_different_probes(make: Make) -> None:
    rank = make()
    before = rank.outlet.probe()
    rank.update_groups(groups(0), 0)
    assert before.mismatch(rank.outlet.probe().logprobs) is not None


def test_an_adapter_is_published_in_its_own_format(make: Make) -> None:
    from peft import PeftConfig
    from safetensors.torch import load_file

    rank = make(lora=LoraConfig(rank=4, push="adapter"))
    rank.update_groups(groups(0), 0)
    update = rank.outlet.publish(1)
    assert update is not None
    assert update.adapter is not None
    assert PeftConfig.from_pretrained(update.adapter.path).r == update.adapter.rank == 4
    tensors = load_file(Path(update.adapter.path) / "adapter_model.safetensors")
    assert tensors
    assert all(".lora_" in name and ".default" not in name for name in tensors)


def test_the_kl_to_the_start_is_zero_first_and_grows(make: Make) -> None:
    for extra in ({}, {"lora": LoraConfig(rank=4)}):
        once = LEARNER.model_copy(update={"minibatches": 1})
        rank = make(objective=ObjectiveConfig(kl_coef=0.1), learner=once, **extra)
        first = rank.update_groups(groups(0), 0).metrics["kl"]
        assert first == pytest.approx(0.0, abs=1e-6)
        assert rank.update_groups(groups(1), 1).metrics["kl"] > 1e-4


def test_ppo_learns_values_of_states(make: Make) -> None:
    rank = make(credit=CreditConfig(estimator="ppo", gamma_traj=0.0), learner=LEARNER)
    played = groups(5, tasks=2)
    losses = [rank.update_groups(played, v).metrics["value_loss"] for v in range(12)]
    assert losses[0] > 0
    assert losses[-1] < 0.7 * losses[0]
    (shard,) = rank.prepare_values(played)
    read = rank.values(shard)
    assert len(read) == sum(len(e.turns) for g in played for t in g for e in t.episodes)
    assert max(read.values()) - min(read.values()) > 0.01


def test_rows_sampled_in_different_ways_are_trained_together(make: Make) -> None:
    rank = make()
    rng = random.Random(0)
    rows = [
        Row(
            (3, rng.randrange(1, VOCABULARY)),
            (rng.randrange(1, VOCABULARY),),
            (-4.0,),
            (0,),
            Sampling(temperature=0.5 + i % 3 * 0.25, top_k=i % 2 * 10),
            rng.gauss(0, 1),
            i,
        )
        for i in range(12)
    ]
    applied, metrics = rank.update(shard_of(rows))
    assert applied
    assert metrics["tokens_trained"] == 12


def test_bfloat16_keeps_float32_master_weights(make: Make) -> None:
    rank = make(dtype="bfloat16", learner=LearnerConfig(lr=1e-5, warmup_updates=0, updates=100))
    shard = shard_of([row(7, 1.0), row(9, -1.0, 1)])
    before = flat(rank)
    for _ in range(100):
        rank.update(shard)
    # A step of 1e-5 is lost in bfloat16 weights of size 0.2; a hundred show only with float32 masters.
    assert (flat(rank) != before).float().mean() > 0.3


def test_computing_activations_again_changes_nothing(make: Make) -> None:
    plain, again = make(), make(gradient_checkpointing=True)
    for v in range(2):
        expected = plain.update_groups(groups(v), v).metrics
        assert again.update_groups(groups(v), v).metrics["grad_norm"] == pytest.approx(expected["grad_norm"])
    assert again.model.model.is_gradient_checkpointing
    assert torch.allclose(flat(again), flat(plain), atol=1e-6)
