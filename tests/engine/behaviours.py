"""What every engine has to do; run on each back end by the test files beside it."""

import asyncio
import random
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from actors.engine.protocol import Reply
from actors.engine.step_engine import StepEngine
from agentmem.failures import EngineError, FailureKind, ModelError, WeightSyncError
from agentmem.sampling import FinishReason, SampleRequest, Sampling
from agentmem.weights.base import Deadlines, Staged, WeightUpdate
from agentmem.weights.files import FilesSender
from tests.engine import tiny

TOLERANCE = 1e-3


class World:
    """An engine, and the learner whose weights it is given."""

    def __init__(self, engine: StepEngine, model: Any, sender: FilesSender) -> None:
        self.engine, self.model, self.sender = engine, model, sender

    def next_update(self, *, deadlines: Deadlines | None = None) -> WeightUpdate:
        version = self.engine.version + 1
        tiny.train(self.model, version)
        return self.publish(version, deadlines=deadlines)

    def publish(self, version: int, *, deadlines: Deadlines | None = None) -> WeightUpdate:
        return self.sender.publish(
            version, tiny.state(self.model), probe=tiny.probe(self.model), deadlines=deadlines
        )

    async def gap(self) -> float:
        """Largest difference between the engine's and the learner's log-probabilities."""
        return worst_gap(await self.engine.score(tiny.PROBE), tiny.score(self.model, tiny.PROBE))


def worst_gap(one: Any, other: Any) -> float:
    return max(abs(a - b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))


def request(name: str, prompt: tuple[int, ...], **sampling: Any) -> SampleRequest:
    return SampleRequest(id=name, prompt_ids=prompt, sampling=Sampling(**sampling))


def prompt(seed: int, length: int = 11) -> tuple[int, ...]:
    return tuple(random.Random(seed).choices(range(tiny.VOCAB), k=length))


class Hanging:
    """A receiver that never gets anything, until it is released."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def receive(self, update: WeightUpdate) -> Staged:
        self.release.wait(60)
        raise OSError("too late")


class Lying:
    """A receiver that says it has the new weights, and has the old ones."""

    def __init__(self, old: dict[str, Any]) -> None:
        self._old = old

    def receive(self, update: WeightUpdate) -> Staged:
        return Staged(tensors=self._old)


class EngineBehaviours:
    """Subclass with `kind`, `tied` and perhaps `settings`; one engine (`world`) serves the whole class."""

    kind = "torch"
    tied = False
    settings: ClassVar[dict[str, Any]] = {}
    many = 100
    """Tokens of a response that is surely still running when something is done to it."""

    async def test_ids_and_logprobs_are_those_of_the_model(self, world: World) -> None:
        requests = [request(f"r{i}", prompt(i), temperature=0.6, max_tokens=6) for i in range(40)]
        ratios = []
        for one, sample in zip(requests, await world.engine.sample_many(requests), strict=True):
            assert sample.id == one.id
            assert sample.finish_reason is FinishReason.LENGTH
            assert len(sample.response_ids) == 6
            own = tiny.processed(world.model, one.prompt_ids, sample.response_ids, one.sampling)
            ratios += [2.718281828 ** (a - b) for a, b in zip(own, sample.logprobs, strict=True)]
            assert worst_gap([own], [sample.logprobs]) < TOLERANCE
        assert abs(sum(ratios) / len(ratios) - 1) < 1e-3

    async def test_top_k_and_top_p_are_in_the_logprobs(self, world: World) -> None:
        for sampling in ({"top_k": 5}, {"top_p": 0.7}, {"top_k": 20, "top_p": 0.8, "temperature": 1.3}):
            requests = [request(f"r{i}", prompt(i), max_tokens=3, **sampling) for i in range(12)]
            for one, sample in zip(requests, await world.engine.sample_many(requests), strict=True):
                own = tiny.processed(world.model, one.prompt_ids, sample.response_ids, one.sampling)
                assert worst_gap([own], [sample.logprobs]) < TOLERANCE

    async def test_sampling_follows_the_distribution(self, world: World) -> None:
        requests = [request(f"r{i}", prompt(1), temperature=0.5, top_k=2, max_tokens=1) for i in range(400)]
        samples = await world.engine.sample_many(requests)
        chances = {s.response_ids[0]: 2.718281828 ** s.logprobs[0] for s in samples}
        assert len(chances) <= 2
        for token, chance in chances.items():
            share = sum(s.response_ids[0] == token for s in samples) / len(samples)
            assert abs(share - chance) < 0.12

    async def test_only_allowed_tokens_are_sampled_and_their_chances_are_those_of_a_choice_among_them(
        self, world: World
    ) -> None:
        two = (3, tiny.VOCAB - 1)
        requests = [
            request(f"r{i}", prompt(1), temperature=0.8, max_tokens=1, allowed_ids=two) for i in range(400)
        ]
        samples = await world.engine.sample_many(requests)
        chances = {s.response_ids[0]: 2.718281828 ** s.logprobs[0] for s in samples}
        assert set(chances) <= set(two)
        assert sum(chances.values()) == pytest.approx(1.0, abs=TOLERANCE)
        share = sum(s.response_ids[0] == two[0] for s in samples) / len(samples)
        assert abs(share - chances.get(two[0], 0.0)) < 0.12
        raw = await world.engine.score([[*prompt(1), token] for token in two])
        gap = (raw[0][-1] - raw[1][-1]) / 0.8
        assert chances[two[0]] == pytest.approx(1 / (1 + 2.718281828**-gap), abs=TOLERANCE)

    async def test_stop_token_is_the_last_id(self, world: World) -> None:
        every = tuple(range(0, tiny.VOCAB, 2))
        stopped = request("stop", prompt(2), max_tokens=30, stop_token_ids=every)
        sample = await world.engine.sample(stopped)
        assert sample.finish_reason is FinishReason.STOP
        assert sample.response_ids[-1] in every
        assert not set(sample.response_ids[:-1]) & set(every)

    async def test_request_that_can_not_be_served_is_refused_alone(self, world: World) -> None:
        replies: asyncio.Queue[Reply] = asyncio.Queue()
        bad = [
            request("empty", ()),
            request("vocabulary", (1, tiny.VOCAB)),
            request("long", prompt(3, 510), max_tokens=16),
            request("allowed", prompt(3), max_tokens=1, allowed_ids=(1, tiny.VOCAB)),
        ]
        world.engine.submit([*bad, request("good", prompt(3), max_tokens=1)], replies.put_nowait)
        got = [await asyncio.wait_for(replies.get(), 20), await asyncio.wait_for(replies.get(), 20)]
        failures = {f.id: f.failure for reply in got for f in reply.failures}
        assert {s.id for reply in got for s in reply.samples} == {"good"}
        assert set(failures) == {"empty", "vocabulary", "long", "allowed"}
        assert all(failure.kind is FailureKind.DATA for failure in failures.values())
        with pytest.raises(ModelError, match="outside the vocabulary"):
            await world.engine.sample(bad[1])

    async def test_update_gives_the_learners_logprobs_and_version(self, world: World) -> None:
        for _ in range(3):
            report = await world.engine.update_weights(world.next_update())
            assert report.applied
            assert report.version == world.engine.version
            assert await world.gap() < TOLERANCE
            sample = await world.engine.sample(request("r", prompt(4), max_tokens=2))
            assert sample.versions == (world.engine.version,) * 2

    async def test_update_is_applied_once_by_version(self, world: World) -> None:
        update = world.next_update()
        assert (await world.engine.update_weights(update)).applied
        assert not (await world.engine.update_weights(update)).applied

    async def test_old_weights_never_answer_from_a_cache(self, world: World) -> None:
        long = prompt(5, 400)
        one = request("r", long, max_tokens=1)
        for _ in range(2):
            sample = await world.engine.sample(one)
            own = tiny.processed(world.model, long, sample.response_ids, one.sampling)
            assert worst_gap([own], [sample.logprobs]) < TOLERANCE
        await world.engine.update_weights(world.next_update())
        sample = await world.engine.sample(one)
        own = tiny.processed(world.model, long, sample.response_ids, one.sampling)
        assert worst_gap([own], [sample.logprobs]) < TOLERANCE

    async def test_update_in_mid_response_stamps_both_versions(self, world: World) -> None:
        before = world.engine.version
        update = world.next_update()
        requests = [request(f"r{i}", prompt(i), max_tokens=self.many) for i in range(8)]
        running = asyncio.ensure_future(world.engine.sample_many(requests))
        steps = world.engine.stats().steps
        while world.engine.stats().steps < steps + 5:
            await asyncio.sleep(0.001)
        await world.engine.update_weights(update)
        seen = set()
        for one, sample in zip(requests, await running, strict=True):
            seen |= set(sample.versions)
            assert list(sample.versions) == sorted(sample.versions)
            # What was sampled after the update has the new weights' log-probabilities, on the whole context.
            new = sample.versions.index(before + 1)
            own = tiny.processed(world.model, one.prompt_ids, sample.response_ids, one.sampling)
            assert worst_gap([own[new:]], [sample.logprobs[new:]]) < TOLERANCE
        assert seen == {before, before + 1}

    async def test_update_that_never_arrives_is_an_error_within_its_deadline(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, scores = world.engine.version, await world.engine.score(tiny.PROBE)
        hanging = Hanging()
        update = world.next_update(deadlines=Deadlines(transfer_s=0.5))
        began = time.monotonic()
        with monkeypatch.context() as patch:
            patch.setitem(world.engine._receivers, "files", hanging)
            asking = asyncio.ensure_future(world.engine.update_weights(update))
            served = await world.engine.sample(request("meanwhile", prompt(6), max_tokens=3))
            with pytest.raises(WeightSyncError, match="engine e0, phase transfer: no answer within 0.5 s"):
                await asking
        assert time.monotonic() - began < 30  # it hangs until it is released
        assert set(served.versions) == {before}
        assert world.engine.version == before
        assert worst_gap(await world.engine.score(tiny.PROBE), scores) == 0.0
        hanging.release.set()
        assert (await world.engine.update_weights(update)).applied
        assert await world.gap() < TOLERANCE

    async def test_engine_that_did_not_get_the_weights_is_found_at_once(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old, before = tiny.state(world.model), world.engine.version
        update = world.next_update()
        with monkeypatch.context() as patch:
            patch.setitem(world.engine._receivers, "files", Lying(old))
            with pytest.raises(WeightSyncError, match="phase verify: probe log-probabilities differ"):
                await world.engine.update_weights(update)
        assert world.engine.version == before
        assert (await world.engine.update_weights(update)).applied
        assert await world.gap() < TOLERANCE

    async def test_slow_load_that_misses_its_deadline_is_undone(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before, scores = world.engine.version, await world.engine.score(tiny.PROBE)
        update = world.next_update(deadlines=Deadlines(verify_s=0.3))
        core, load, first = world.engine._core, world.engine._core.load, threading.Event()

        def slow(staged: Staged | None) -> None:
            if not first.is_set():
                first.set()
                time.sleep(1.0)
            load(staged)

        with monkeypatch.context() as patch:
            patch.setattr(core, "load", slow)
            with pytest.raises(WeightSyncError, match="phase verify: no answer within 0.3 s"):
                await world.engine.update_weights(update)
            assert worst_gap(await world.engine.score(tiny.PROBE), scores) < 1e-5
        assert world.engine.version == before
        assert (await world.engine.update_weights(update)).applied

    async def test_update_of_another_model_is_refused_at_the_announcement(
        self, world: World, tmp_path: Path
    ) -> None:
        version = world.engine.version
        other = tiny.make_model(tmp_path / "other", tied=self.tied, vocab=700)
        update = world.sender.publish(version + 1, tiny.state(other))
        with pytest.raises(WeightSyncError, match=r"phase announce: .* has shape \(700, 64\)"):
            await world.engine.update_weights(update)
        few = world.sender.publish(version + 1, {"model.norm.weight": tiny.state(other)["model.norm.weight"]})
        with pytest.raises(WeightSyncError, match="phase announce: .* lacks"):
            await world.engine.update_weights(few)
        lost = WeightUpdate(version=version + 1, transport="carrier-pigeon", tensors=update.tensors)
        with pytest.raises(WeightSyncError, match=r"transport 'carrier-pigeon' is unknown"):
            await world.engine.update_weights(lost)
        assert world.engine.version == version

    async def test_scoring_does_not_disturb_what_runs(self, world: World) -> None:
        requests = [request(f"r{i}", prompt(i), max_tokens=60) for i in range(8)]
        running = asyncio.ensure_future(world.engine.sample_many(requests))
        gaps = [await world.gap() for _ in range(5)]
        assert max(gaps) < TOLERANCE
        for one, sample in zip(requests, await running, strict=True):
            assert len(sample.response_ids) == 60
            own = tiny.processed(world.model, one.prompt_ids, sample.response_ids, one.sampling)
            assert worst_gap([own], [sample.logprobs]) < TOLERANCE

    async def test_abandoned_request_is_forgotten(self, world: World) -> None:
        running = asyncio.ensure_future(world.engine.sample(request("r", prompt(7), max_tokens=400)))
        steps = world.engine.stats().steps
        while world.engine.stats().steps < steps + 2:
            await asyncio.sleep(0.001)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await world.engine.score(tiny.PROBE)
        assert world.engine.stats().in_flight == 0

    async def test_request_past_its_deadline_is_a_typed_error(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import msgspec

        with monkeypatch.context() as patch:
            patch.setattr(
                world.engine, "_config", msgspec.structs.replace(world.engine._config, request_s=0.01)
            )
            with pytest.raises(EngineError, match="no answer within 0.01 s"):
                await world.engine.sample_many(
                    [request(f"r{i}", prompt(i), max_tokens=400) for i in range(8)]
                )
        await world.engine.score(tiny.PROBE)
        assert world.engine.stats().in_flight == 0
