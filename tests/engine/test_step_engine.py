"""The engine around a core: what happens when the core is broken, slow, or asked too much at once."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import pytest_asyncio

from actors.engine.protocol import Emitted, EngineConfig, Reply
from actors.engine.step_engine import StepEngine
from agentmem.failures import ConfigError, EngineError, FailureKind, ModelError, WeightSyncError
from agentmem.sampling import FinishReason, SampleRequest, Sampling
from agentmem.weights.base import Deadlines, Probe, Staged, WeightUpdate


class ScriptedCore:
    """Answers 7 with the log-probability that its weights say; can break and block."""

    def __init__(self) -> None:
        self.live: list[int] = []
        self.weights = -1.0
        self.loads: list[float] = []
        self.broken = False
        self.unbroken_load = True
        self.gate = threading.Event()
        self.gate.set()

    def start(self) -> None: ...

    def refusal(self, request: SampleRequest) -> str | None:
        return None

    def add(self, ids: Sequence[int], requests: Sequence[SampleRequest], adapter: int | None) -> None:
        self.live += ids

    def abort(self, ids: Sequence[int]) -> None:
        self.live = [number for number in self.live if number not in ids]

    def busy(self) -> bool:
        return bool(self.live)

    def cache_share(self) -> float:
        return 0.0

    def step(self) -> list[Emitted]:
        self.gate.wait(30)
        if self.broken:
            raise RuntimeError("out of memory")
        done, self.live = self.live, []
        return [Emitted(number, [7], [self.weights], FinishReason.LENGTH) for number in done]

    def drain(self) -> list[Emitted]:
        return []

    def check(self, update: WeightUpdate) -> str | None:
        return None

    def load(self, staged: Staged | None) -> None:
        if not self.unbroken_load:
            raise RuntimeError("bad file")
        self.weights = -1.0 if staged is None else float(str(staged.path))
        self.loads.append(self.weights)

    def score(self, sequences: Sequence[Sequence[int]], adapter: int | None) -> list[list[float]]:
        return [[self.weights] * (len(ids) - 1) for ids in sequences]

    def add_adapter(self, number: int, path: str) -> None: ...

    def remove_adapter(self, number: int) -> None: ...

    def close(self) -> None: ...


class PathIsWeight:
    def receive(self, update: WeightUpdate) -> Staged:
        return Staged(path=update.location)


def update(
    version: int, weights: float, *, expected: float | None = None, **deadlines: float
) -> WeightUpdate:
    value = weights if expected is None else expected
    return WeightUpdate(
        version=version,
        transport="files",
        location=str(weights),
        probe=Probe(sequences=((1, 2),), logprobs=((value,),)),
        deadlines=Deadlines(**deadlines),  # type: ignore[arg-type]
    )


def request(name: str = "r") -> SampleRequest:
    return SampleRequest(id=name, prompt_ids=(1, 2), sampling=Sampling(max_tokens=1))


Make = Callable[..., Any]


@pytest_asyncio.fixture
async def make() -> AsyncIterator[Make]:
    opened: list[tuple[StepEngine, ScriptedCore]] = []

    async def start(**settings: Any) -> tuple[StepEngine, ScriptedCore]:
        core = ScriptedCore()
        engine = StepEngine(core, EngineConfig(model="", **settings), {"files": PathIsWeight()}, name="e0")
        await engine.start()
        opened.append((engine, core))
        return engine, core

    yield start
    for engine, core in opened:
        core.gate.set()
        await engine.close()


async def test_broken_step_answers_everything_with_infrastructure_failures(make: Make) -> None:
    engine, core = await make()
    core.broken = True
    replies: asyncio.Queue[Reply] = asyncio.Queue()
    engine.submit([request("a"), request("b")], replies.put_nowait)
    reply = await asyncio.wait_for(replies.get(), 10)
    assert {f.id for f in reply.failures} == {"a", "b"}
    assert {f.failure.kind for f in reply.failures} == {FailureKind.INFRASTRUCTURE}
    assert "RuntimeError: out of memory" in reply.failures[0].failure.what
    with pytest.raises(EngineError, match="engine e0 is dead: RuntimeError: out of memory"):
        engine.submit([request()], replies.put_nowait)
    with pytest.raises(EngineError, match="dead"):
        await engine.score([[1, 2]])
    with pytest.raises(WeightSyncError, match="phase announce: EngineError"):
        await engine.update_weights(update(1, -2.0))


async def test_engine_whose_step_hangs_fails_updates_and_requests_in_time(make: Make) -> None:
    engine, core = await make(request_s=0.2)
    core.gate.clear()
    asking = asyncio.ensure_future(engine.sample(request()))
    with pytest.raises(EngineError, match="no answer within 0.2 s"):
        await asking
    with pytest.raises(WeightSyncError, match="phase announce: no answer within 0.1 s"):
        await engine.update_weights(update(1, -2.0, announce_s=0.1))
    core.gate.set()
    assert (await engine.update_weights(update(1, -2.0))).applied
    assert (await engine.sample(request("again"))).logprobs == (-2.0,)
    assert core.loads == [-2.0]


async def test_updates_asked_for_at_once_are_applied_one_after_another(make: Make) -> None:
    engine, core = await make()
    reports = await asyncio.gather(
        *(engine.update_weights(update(version, -version)) for version in (1, 2, 2, 3))
    )
    assert [report.applied for report in reports] == [True, True, False, True]
    assert core.loads == [-1.0, -2.0, -3.0]
    assert engine.version == 3
    assert engine.stats().updates == 3


async def test_mismatch_puts_the_last_good_weights_back(make: Make) -> None:
    engine, core = await make()
    await engine.update_weights(update(1, -2.0))
    with pytest.raises(WeightSyncError, match="differ by 1 "):
        await engine.update_weights(update(2, -3.0, expected=-4.0))
    assert core.loads == [-2.0, -3.0, -2.0]
    assert engine.version == 1
    assert (await engine.sample(request())).versions == (1,)
    assert engine.stats().failed_updates == 1


async def test_engine_that_can_not_put_weights_back_ends_itself(make: Make) -> None:
    engine, core = await make()
    core.unbroken_load = False
    with pytest.raises(WeightSyncError, match="phase verify: RuntimeError: bad file"):
        await engine.update_weights(update(1, -2.0))
    with pytest.raises(EngineError, match="dead|died"):
        await engine.score([[1, 2]])


async def test_start_that_fails_is_raised_as_it_is() -> None:
    class Bad(ScriptedCore):
        def start(self) -> None:
            raise ModelError("no such model")

    engine = StepEngine(Bad(), EngineConfig(model=""), {})
    with pytest.raises(ModelError, match="no such model"):
        await engine.start()
    with pytest.raises(EngineError, match="dead"):
        engine.submit([request()], lambda reply: None)


async def test_start_that_hangs_is_a_typed_error() -> None:
    class Slow(ScriptedCore):
        def start(self) -> None:
            self.gate.clear()
            self.gate.wait(30)

    core = Slow()
    with pytest.raises(EngineError, match="did not start within 0.1 s"):
        await StepEngine(core, EngineConfig(model="", start_s=0.1), {}).start()
    core.gate.set()


async def test_repeated_ids_in_a_batch_are_refused(make: Make) -> None:
    engine, _ = await make()
    with pytest.raises(ValueError, match="unique"):
        await engine.sample_many([request("a"), request("a")])


def test_unsupported_vllm_version_is_one_clear_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vllm")
    from actors.engine import vllm_engine

    monkeypatch.setattr(vllm_engine, "VERSION_WINDOW", ((0, 28), (0, 29)))
    with pytest.raises(ConfigError, match=r"is installed, but this adapter supports 0.28 to before 0.29"):
        vllm_engine.probe_features()


def test_bad_checkpoints_are_one_clear_line(tmp_path: Any) -> None:
    from actors.engine.checkpoint import read_checkpoint
    from tests.engine import tiny

    config = EngineConfig(model=str(tmp_path))
    with pytest.raises(ModelError, match="config.json is missing"):
        read_checkpoint(config)
    tiny.make_model(tmp_path, tied=False, vocab=50)
    assert read_checkpoint(config)[1] == 50
    with pytest.raises(ModelError, match="max_model_len 4096 > 512 positions"):
        read_checkpoint(EngineConfig(model=str(tmp_path), max_model_len=4096))
    text = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(text.replace('"vocab_size": 50', '"vocab_size": 60'))
    with pytest.raises(ModelError, match="vocab_size is 60, but there are 50 embeddings"):
        read_checkpoint(config)
    (tmp_path / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(ModelError, match="can't be read"):
        read_checkpoint(config)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="there is no"):
        read_checkpoint(config)
