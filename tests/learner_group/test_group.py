"""Ranks in processes of their own, under a real Ray and a real DeepSpeed."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

from agentmem.config.learning import CreditConfig, LearnerConfig, ObjectiveConfig
from agentmem.failures import ConfigError
from agentmem.trajectory import encode_trial
from agentmem.weights import WeightUpdate
from agentmem.weights.files import FilesReceiver
from learner.actor import RankActor
from learner.group import LearnerError, LearnerGroup, error_of
from learner.outlet import Outlet
from learner.rank import LearnerRank
from learner.rendezvous import connect_store
from learner.settings import RankSettings
from tests.learner_group.support import groups, save_model

TOLERANCE = 2e-4
"""Largest difference of log-probs and metrics between one rank and two: float32 sums in another order."""

COMPARED = (
    "policy_loss",
    "entropy",
    "ratio_mean",
    "grad_norm",
    "tokens_trained",
    "clip_fraction",
)


@pytest.fixture(scope="module", autouse=True)
def ray_session(cluster: None) -> None:
    """The session's Ray."""
    # Workers can't import a test module by name.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"))


def settings(
    model: str, folder: Path, *, ranks: int, stage: int = 0, estimator: str = "gigpo"
) -> RankSettings:
    return RankSettings(
        policy="agent",
        model=model,
        learner=LearnerConfig(
            ranks=ranks,
            zero_stage=stage,
            lr=1e-2,
            minibatches=2,
            updates=10,
            warmup_updates=0,
            token_budget=48,
            timeout_s=120.0,
            keep_checkpoints=1,
        ),
        credit=CreditConfig(estimator=estimator, scale_by_rms=True),  # type: ignore[arg-type]
        objective=ObjectiveConfig(entropy_coef=0.01),
        weights_dir=str(folder / "weights"),
    )


def alone(model: str, folder: Path, estimator: str) -> tuple[list[dict[str, float]], Any]:
    """What a single rank in this process makes of two updates."""
    rank = LearnerRank(settings(model, folder, ranks=1, estimator=estimator), device=torch.device("cpu"))
    metrics = [rank.update_groups(groups(v), v).metrics for v in range(2)]
    return metrics, rank.outlet.probe()


@pytest.mark.parametrize(("stage", "estimator"), [(0, "ppo"), (1, "gigpo"), (2, "ppo"), (3, "gigpo")])
def test_two_ranks_train_what_one_rank_trains_and_resume_where_they_were(
    model: str, tmp_path: Path, stage: int, estimator: str
) -> None:
    expected, probe = alone(model, tmp_path, estimator)
    with LearnerGroup(
        settings(model, tmp_path, ranks=2, stage=stage, estimator=estimator), cpus_per_rank=0
    ) as group:
        for v in range(2):
            result = group.update([[encode_trial(t) for t in g] for g in groups(v)], v)
            assert result.version == v + 1
            assert result.plan.microbatches > 4
            for name in (*COMPARED, *(["value_loss"] if estimator == "ppo" else [])):
                assert result.metrics[name] == pytest.approx(expected[v][name], abs=TOLERANCE, rel=TOLERANCE)
        update = group.publish(2, ["engine"])
        assert update.probe is not None
        assert probe.mismatch(update.probe.logprobs) is None
        whole = FilesReceiver().receive(update).tensors
        assert whole is not None
        assert all(t.numel() > 0 for t in whole.values())

        group.save_checkpoint(tmp_path / "checkpoints", 2, {"cursor": 7})
        straight = group.update(groups(2), 2).metrics["grad_norm"]
        found = group.load_checkpoint(tmp_path / "checkpoints")
        assert found is not None
        assert (found.step, found.extra) == (2, {"cursor": 7})
        assert group.update(groups(2), 2).metrics["grad_norm"] == pytest.approx(straight, rel=1e-4)


def test_one_rank_takes_trials_and_gives_a_model(model: str, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    expected, probe = alone(model, tmp_path, "gigpo")
    with LearnerGroup(settings(model, tmp_path, ranks=1), cpus_per_rank=0) as group:
        assert group.load_checkpoint(tmp_path / "checkpoints") is None
        for v in range(2):
            metrics = group.update(groups(v), v).metrics
            assert metrics["policy_loss"] == pytest.approx(expected[v]["policy_loss"], abs=1e-6)
        update = group.publish(2, ["engine"])
        assert update.probe == probe
        group.publish(3, ["engine"])
        assert Path(update.location).exists()
        group.publish(4, ["engine"])
        group.acknowledge(4, "engine")
        assert not Path(update.location).exists()
        folder = group.final_model(tmp_path / "final")
        final = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        assert sum(p.numel() for p in final.parameters()) > 0
    with pytest.raises(LearnerError, match="closed"):
        group.update(groups(0), 0)


def test_a_silent_rank_ends_at_the_deadline_and_a_dead_one_is_named(model: str, tmp_path: Path) -> None:
    with LearnerGroup(settings(model, tmp_path, ranks=2), cpus_per_rank=0) as group:
        victim = group.pids()[1]
        group.timeout_s = 3.0
        os.kill(victim, signal.SIGSTOP)
        with pytest.raises(LearnerError, match=r"phase update: no answer within 3 s") as silent:
            group.update(groups(0), 0)
        assert 1 in silent.value.ranks
        os.kill(victim, signal.SIGKILL)
        group.timeout_s = 60.0
        with pytest.raises(LearnerError, match="rank 1, phase update: its process died"):
            group.update(groups(0), 0)


class BlockedOutlet(Outlet):
    """Its rank 0 sends only when somebody opens the pipe for writing."""

    def _files_sender(self) -> Any:
        with Path(self._settings.weights_dir).with_name("gate").open("rb") as gate:
            gate.read()
        return super()._files_sender()


class BlockedActor(RankActor):
    """A rank actor with a `BlockedOutlet`."""

    def start(self, host: str, port: int) -> None:
        if self._store is None:
            self._store = connect_store(host, port, self.world, 60.0)
        rank = self._learner = LearnerRank(self.settings, self._rank, self.world, self._store)
        rank.outlet = BlockedOutlet(self.settings, self._rank, rank.model, rank.engine, rank.device)


def test_under_zero_3_no_rank_waits_inside_a_gather_while_rank_0_sends(model: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    config = settings(model, tmp_path, ranks=2, stage=3)
    remote = ray.remote(BlockedActor)
    actors = [remote.options(num_cpus=0).remote(config, rank, 2, 1) for rank in range(2)]
    host, port = ray.get(actors[0].open.remote(), timeout=60)
    ray.get([a.start.remote(host, port) for a in actors], timeout=60)
    sent = [a.publish.remote(1, ["engine"]) for a in actors]
    assert ray.get(sent[1], timeout=30) is None
    _, waiting = ray.wait([sent[0]], timeout=0)
    assert waiting == [sent[0]]
    with gate.open("wb") as opened:
        opened.write(b"go")
    update = ray.get(sent[0], timeout=30)
    assert isinstance(update, WeightUpdate)
    assert len(ray.get([a.pid.remote() for a in actors], timeout=30)) == 2
    for actor in actors:
        ray.kill(actor)


def test_a_typed_error_of_a_rank_reaches_the_driver_as_it_is(model: str, tmp_path: Path) -> None:
    config = dataclasses.replace(settings(model, tmp_path, ranks=1), weights_dir="")
    with (
        LearnerGroup(config, cpus_per_rank=0) as group,
        pytest.raises(ConfigError, match="needs a directory"),
    ):
        group.publish(1)


def test_a_rank_that_the_memory_monitor_ended_is_a_lost_rank_whatever_the_others_say() -> None:
    from ray.exceptions import OutOfMemoryError

    error = error_of(
        "agent", "update", {0: ValueError("a peer is gone"), 1: OutOfMemoryError("low on memory")}
    )
    assert isinstance(error, LearnerError)
    assert list(error.ranks) == [1]
    assert "its process died" in str(error)
