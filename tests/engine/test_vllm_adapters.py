"""Adapter-only updates: exact, and an adapter lives as long as its last request."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from agentmem.failures import WeightSyncError
from agentmem.weights.base import WeightUpdate
from tests.engine import tiny
from tests.engine.behaviours import TOLERANCE, World, prompt, request, worst_gap

pytest.importorskip("vllm")
MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@pytest.mark.asyncio(loop_scope="class")
class TestVllmAdapters:
    kind = "vllm"
    tied = False
    settings: ClassVar[dict[str, Any]] = {"lora_rank": 4, "max_adapters": 2}

    @staticmethod
    def adapted(world: World) -> Any:
        """The learner's model with an adapter on it (the same one in every test)."""
        if not hasattr(world.model, "peft_config"):
            from peft import LoraConfig, get_peft_model

            world.model = get_peft_model(world.model, LoraConfig(r=4, lora_alpha=8, target_modules=MODULES))
        return world.model

    def next_update(self, world: World, folder: Path) -> WeightUpdate:
        model, version = self.adapted(world), world.engine.version + 1
        generator = torch.Generator().manual_seed(version)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_" in name:
                    parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
        model.save_pretrained(folder / str(version))
        return world.sender.publish_adapter(
            version, folder / str(version), rank=4, engines=["e0"], probe=tiny.probe(model)
        )

    async def test_adapter_gives_the_learners_logprobs(self, world: World, tmp_path: Path) -> None:
        for _ in range(2):
            report = await world.engine.update_weights(self.next_update(world, tmp_path))
            assert report.applied
            one = request("r", prompt(1), max_tokens=4, temperature=0.6)
            sample = await world.engine.sample(one)
            assert set(sample.versions) == {world.engine.version}
            own = tiny.processed(world.model, one.prompt_ids, sample.response_ids, one.sampling)
            assert worst_gap([own], [sample.logprobs]) < TOLERANCE

    async def test_running_request_keeps_its_adapter_while_newer_ones_come(
        self, world: World, tmp_path: Path
    ) -> None:
        await world.engine.update_weights(self.next_update(world, tmp_path))
        before = world.engine.version
        one = request("long", prompt(2), max_tokens=450)
        running = asyncio.ensure_future(world.engine.sample(one))
        steps = world.engine.stats().steps
        while world.engine.stats().steps < steps + 3:
            await asyncio.sleep(0.001)
        await world.engine.update_weights(self.next_update(world, tmp_path))
        with pytest.raises(WeightSyncError, match="announce.*2 adapter versions are still in flight"):
            await world.engine.update_weights(self.next_update(world, tmp_path))
        assert not running.done()
        sample = await running
        assert set(sample.versions) == {before}
        assert len(sample.response_ids) == 450
        assert world.engine._core._core.list_loras() == {world.engine.version}  # type: ignore[attr-defined]

    async def test_adapter_over_the_rank_limit_is_refused(self, world: World, tmp_path: Path) -> None:
        update = self.next_update(world, tmp_path)
        wide = world.sender.publish_adapter(update.version, Path(update.location), rank=64)
        with pytest.raises(WeightSyncError, match="adapter rank 64 > lora_rank 4"):
            await world.engine.update_weights(wide)

    async def test_wrong_adapter_is_found_and_the_old_one_serves(self, world: World, tmp_path: Path) -> None:
        scores, version = await world.engine.score(tiny.PROBE), world.engine.version
        update = self.next_update(world, tmp_path)
        for name, parameter in world.model.named_parameters():
            if "lora_B" in name:
                parameter.data.mul_(2.0)
        wrong = world.sender.publish_adapter(
            update.version, Path(update.location), rank=4, probe=tiny.probe(world.model)
        )
        with pytest.raises(WeightSyncError, match="probe log-probabilities differ"):
            await world.engine.update_weights(wrong)
        assert world.engine.version == version
        assert worst_gap(await world.engine.score(tiny.PROBE), scores) < 1e-5
