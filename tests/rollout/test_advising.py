"""The memory policy at work, a real model behind the PyTorch engine: what is asked, stamped and counted."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from actors.engine.client import EngineClient
from actors.engine.factory import build_engine
from actors.engine.protocol import EngineConfig
from actors.engine.step_engine import StepEngine
from actors.rollout.advising import AdviceRequest, Advising
from agentmem.chat import ChatCodec
from agentmem.memory.advisor import advice_of, p_generate_of
from agentmem.sampling import FinishReason, Sample, SampleRequest, Sampling
from agentmem.trajectory import Split
from envs.base import EpisodeRecord, ParsedAction, ParsedReflection, Prompt, PromptStyle, View
from tests.learner_group.advised import EOS, TOKENS, save_memory_model

T = 0.8
HINT = Sampling(temperature=T, max_tokens=3)


class WordsStyle(PromptStyle):
    """Prompts of the small model's words."""

    def act_prompt(self, view: View) -> Prompt:
        return f"w1 {view.observation}"

    def advise_prompt(self, task: str, observation: str) -> Prompt:
        return f"{task} {observation} w3"

    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> Prompt:
        return "w2"

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        return ParsedAction((response,))

    def parse_reflection(self, response: str) -> ParsedReflection:
        return ParsedReflection(response)

    def summarise(self, episode: EpisodeRecord) -> str:
        return ""


@dataclass
class Asked:
    """The engine as a sampler that remembers its requests."""

    engine: StepEngine
    requests: list[SampleRequest]

    async def sample(self, prompt_ids: tuple[int, ...], sampling: Sampling) -> Sample:
        request = SampleRequest(id=str(len(self.requests)), prompt_ids=tuple(prompt_ids), sampling=sampling)
        self.requests.append(request)
        return await self.engine.sample(request)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_memory_model(tmp_path_factory.mktemp("memory"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(model: str) -> AsyncIterator[StepEngine]:
    it = build_engine(EngineConfig(model=model, kind="torch", max_model_len=64), initial_version=7)
    await it.start()
    yield it
    await it.close()


pytestmark = pytest.mark.asyncio(loop_scope="module")


def advising(sampler: Any, model: str, **more: Any) -> Advising:
    settings: dict[str, Any] = {"context_length": 64, **more}
    hints = {Split.TRAIN: HINT, Split.EVAL: HINT}
    return Advising("g", sampler, ChatCodec(model), TOKENS, WordsStyle(), hints, **settings)


def question(branch: str, split: Split = Split.TRAIN, observation: str = "w5 w6") -> AdviceRequest:
    return AdviceRequest(id="1", task="w4", observation=observation, branch=branch, split=split)


async def likelihood(engine: StepEngine, prompt: tuple[int, ...], ids: tuple[int, ...]) -> list[float]:
    (row,) = await engine.score([(*prompt, *ids)])
    return row[-len(ids) :]


async def test_a_forced_hint_begins_behind_its_decision_which_has_no_logprob(
    engine: StepEngine, model: str
) -> None:
    asked = Asked(engine, [])
    turn = (await advising(asked, model).advise(question("generate"))).turn
    (request,) = asked.requests
    assert request.prompt_ids == (*turn.prompt_ids, TOKENS.generate)
    assert turn.forced == 1
    assert turn.response_ids is not None
    assert turn.logprobs is not None
    assert turn.response_ids[0] == TOKENS.generate
    assert math.isnan(turn.logprobs[0])
    assert not any(math.isnan(p) for p in turn.logprobs[1:])
    assert turn.versions == (7,) * len(turn.response_ids)
    assert turn.sampling == Sampling(temperature=T, max_tokens=3, stop_token_ids=(EOS,))
    assert turn.actions == ("generate",)
    words = ChatCodec(model).decode(turn.response_ids[1:])
    assert turn.response == words.strip()


async def test_a_forced_abstention_samples_nothing_and_still_tells_p_generate(
    engine: StepEngine, model: str
) -> None:
    asked = Asked(engine, [])
    advised = await advising(asked, model).advise(question("abstain"))
    turn = advised.turn
    assert (turn.response_ids, turn.forced, turn.response) == ((TOKENS.abstain,), 1, "")
    assert turn.versions == (7,)
    assert turn.logprobs is not None
    assert math.isnan(turn.logprobs[0])
    (speak,) = await likelihood(engine, turn.prompt_ids, (TOKENS.generate,))
    (silent,) = await likelihood(engine, turn.prompt_ids, (TOKENS.abstain,))
    assert advised.gap == pytest.approx(speak - silent, abs=1e-3)
    assert turn.gap == advised.gap


async def test_what_the_policy_itself_would_do_is_counted_also_where_its_branch_is_forced(
    engine: StepEngine, model: str
) -> None:
    for threshold, counted in ((-1e9, (2, 0)), (1e9, (0, 2))):
        memory = advising(Asked(engine, []), model, threshold=threshold)
        for branch in ("abstain", "free", "generate"):  # the last isn't asked
            await memory.advise(question(branch))
        stats = memory.stats()
        assert (stats.would_generate, stats.would_abstain) == counted


async def test_a_question_may_have_limits_of_its_own(engine: StepEngine, model: str) -> None:
    memory = advising(Asked(engine, []), model)
    own = replace(question("free", Split.EVAL), threshold=-1e9, max_tokens=1)
    turn = (await memory.advise(own)).turn
    assert turn.actions == ("generate",)
    assert turn.sampling is not None
    assert turn.sampling.max_tokens == 1
    assert (await memory.advise(replace(own, threshold=1e9))).turn.actions == ("abstain",)
    assert (await memory.advise(replace(own, timeout_s=1e-6))).turn.policy == ""
    assert memory.stats().late == 1


async def test_a_free_decision_in_training_is_sampled_as_often_as_it_is_likely(
    engine: StepEngine, model: str
) -> None:
    memory = advising(Asked(engine, []), model)
    found = await asyncio.gather(*(memory.advise(question("free")) for _ in range(200)))
    assert found[0].gap is not None
    at_t = 1 / (1 + math.exp(-found[0].gap / T))
    speaks = [advised.turn.actions == ("generate",) for advised in found]
    assert abs(sum(speaks) / len(speaks) - at_t) < 0.15
    for advised, speak in zip(found, speaks, strict=True):
        turn = advised.turn
        assert turn.forced == 0
        assert turn.logprobs is not None
        assert math.exp(turn.logprobs[0]) == pytest.approx(at_t if speak else 1 - at_t, abs=1e-3)
        assert advice_of(turn).p_generate == pytest.approx(p_generate_of(found[0].gap), abs=1e-3)
    stats = memory.stats()
    assert (stats.requests, stats.generated + stats.abstained, stats.late) == (200, 200, 0)
    assert sum(stats.p_generate) == 200
    assert stats.in_flight == 0


@pytest.mark.parametrize(("threshold", "decision"), [(-1e9, "generate"), (1e9, "abstain")])
async def test_outside_training_the_threshold_decides(
    engine: StepEngine, model: str, threshold: float, decision: str
) -> None:
    memory = advising(Asked(engine, []), model, threshold=threshold)
    for _ in range(6):
        advised = await memory.advise(question("free", Split.EVAL))
        assert advised.turn.actions == (decision,)
        assert advised.turn.logprobs is not None
        told = advice_of(advised.turn).p_generate
        assert advised.gap is not None
        assert told == pytest.approx(p_generate_of(advised.gap), abs=1e-3)


async def test_a_prompt_that_is_too_long_keeps_head_and_tail(engine: StepEngine, model: str) -> None:
    memory = advising(Asked(engine, []), model)
    long = " ".join(f"w{i % 40}" for i in range(200))
    turn = (await memory.advise(question("abstain", observation=long))).turn
    assert len(turn.prompt_ids) == 64 - 1 - HINT.max_tokens
    whole = ChatCodec(model).encode(f"w4 {long} w3")
    assert (turn.prompt_ids[:5], turn.prompt_ids[-5:]) == (whole[:5], whole[-5:])
    assert memory.stats().prompt_cut == 1


async def test_without_an_engine_in_time_it_abstains_and_is_counted_as_late(model: str) -> None:
    client = EngineClient({}, request_s=60.0)
    memory = advising(client, model, timeout_s=0.05)
    turn = (await memory.advise(question("generate"))).turn
    await client.close()
    assert (turn.policy, turn.response_ids, turn.actions) == ("", None, ("abstain",))
    stats = memory.stats()
    assert (stats.requests, stats.late, stats.generated) == (1, 1, 0)


async def test_a_hint_at_its_limit_is_counted_as_cut(engine: StepEngine, model: str) -> None:
    memory = advising(Asked(engine, []), model)
    found = await asyncio.gather(*(memory.advise(question("generate")) for _ in range(20)))
    cut = sum(advised.turn.finish_reason is FinishReason.LENGTH for advised in found)
    assert memory.stats().cut == cut > 0
