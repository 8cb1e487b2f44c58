"""Engines as Ray actors: batches, typed errors across processes, death by SIGKILL."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from actors.batch_client import RayReplica
from actors.engine import actor
from actors.engine.client import EngineClient
from actors.engine.protocol import EngineConfig
from agentmem.failures import ModelError, WeightSyncError
from agentmem.sampling import Sampling
from agentmem.weights.files import FilesSender
from tests.engine import tiny

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("cluster")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("actor") / "model"
    return folder, tiny.make_model(folder, tied=False)


async def answer(reference: Any, seconds: float = 120.0) -> Any:
    return await asyncio.wait_for(asyncio.wrap_future(reference.future()), seconds)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engines(model: tuple[Path, Any]) -> AsyncIterator[dict[str, Any]]:
    config = EngineConfig(model=str(model[0]), kind="torch")
    handles = {name: actor.create(config, name, num_cpus=0) for name in ("a", "b")}
    await asyncio.gather(*(answer(handle.start.remote()) for handle in handles.values()))
    yield handles


async def test_many_samples_through_ray_are_all_answered(engines: dict[str, Any]) -> None:
    client = EngineClient({name: RayReplica(handle) for name, handle in engines.items()})
    samples = await client.sample_many([[i % tiny.VOCAB, 5, 6] for i in range(500)], Sampling(max_tokens=2))
    await client.close()
    assert all(len(sample.response_ids) == 2 for sample in samples)
    served = [(await answer(handle.stats.remote())).requests for handle in engines.values()]
    assert served == [250, 250]


async def test_refusals_and_update_errors_keep_their_types(
    engines: dict[str, Any], model: tuple[Path, Any], tmp_path: Path
) -> None:
    client = EngineClient({"a": RayReplica(engines["a"])})
    with pytest.raises(ModelError, match="outside the vocabulary"):
        await client.sample([tiny.VOCAB], Sampling(max_tokens=1))
    await client.close()
    sender = FilesSender(tmp_path)
    good, wrong = tiny.probe(model[1]), tiny.state(model[1])
    wrong["lm_head.weight"] += torch_noise()
    with pytest.raises(WeightSyncError, match="engine a, phase verify") as caught:
        await answer(engines["a"].update_weights.remote(sender.publish(1, wrong, probe=good)))
    assert caught.value.phase == "verify"
    assert await answer(engines["a"].ping.remote()) == 0
    report = await answer(
        engines["a"].update_weights.remote(sender.publish(1, tiny.state(model[1]), probe=good))
    )
    assert report.applied
    assert await answer(engines["a"].ping.remote()) == 1


def torch_noise() -> Any:
    import torch

    return torch.randn(tiny.VOCAB, 64)


async def test_bad_model_is_one_clear_line(tmp_path: Path) -> None:
    for kind in ("torch", "vllm"):
        handle = actor.create(EngineConfig(model=str(tmp_path / "none"), kind=kind), "bad", num_cpus=0)
        with pytest.raises(ModelError, match="no model at .*none: config.json is missing"):
            await answer(handle.start.remote())


async def test_killed_engine_takes_its_processes_and_its_requests_go_elsewhere(
    engines: dict[str, Any], model: tuple[Path, Any]
) -> None:
    pytest.importorskip("vllm")
    victim = actor.create(EngineConfig(model=str(model[0]), kind="vllm"), "victim", num_cpus=0)
    await answer(victim.start.remote())
    pid = (await answer(victim.stats.remote())).pid
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    client = EngineClient({"victim": RayReplica(victim)})
    waiting = [asyncio.ensure_future(client.sample([1, 2, 3], Sampling(max_tokens=200))) for _ in range(20)]
    while (await answer(victim.stats.remote())).steps < 5:
        await asyncio.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    client.set_replicas({"victim": RayReplica(victim), "b": RayReplica(engines["b"])})
    samples = await asyncio.wait_for(asyncio.gather(*waiting), 100)
    await client.close()
    assert all(len(sample.response_ids) == 200 for sample in samples)
    assert "victim" in client.lost
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
