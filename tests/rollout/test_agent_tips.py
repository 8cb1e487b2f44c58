"""Tips in an agent: written beside the trials, found again by later ones, and nobody waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from actors.rollout.local_env import LocalEnvs
from actors.rollout.policy import EnginePolicy
from actors.rollout.strategies import strategy_of
from actors.rollout.tips import AgentTips, TipRules
from actors.rollout.trial import Limits, play_trial
from agentmem.chat import Exchange, Rendered
from agentmem.failures import EngineError, FailureKind
from agentmem.memory.embedding import CachedEmbedder, load_embedder
from agentmem.memory.tips import TipBook
from agentmem.replay import ReplayBuffer
from agentmem.replay.embedded import EmbeddedServer
from agentmem.sampling import FinishReason, Sample, Sampling
from agentmem.trajectory import Mode, Split, Task, Ticket, Trial, TurnKind
from envs.base import EpisodeRecord, Message, ParsedReflection, Prompt, View
from tests.rollout.worlds import Hall, HallStyle

SAMPLING = {TurnKind.ACT: Sampling(max_tokens=8), TurnKind.TIP: Sampling(max_tokens=20)}


class TipStyle(HallStyle):
    def act_prompt(self, view: View) -> Prompt:
        return f"{'|'.join(view.tips)} at {view.observation}"

    def tip_prompt(self, view: View, episode: EpisodeRecord) -> Prompt:
        return f"tip on {episode.stop} after {len(episode.steps)}"

    def parse_tip(self, response: str) -> ParsedReflection:
        return ParsedReflection(response, invalid=not response)


class TipHall(Hall):
    style = TipStyle()


class Letters:
    """A tokenizer of which every token is a letter."""

    stop_token_ids: tuple[int, ...] = ()

    def encode(self, prompt: Prompt) -> tuple[int, ...]:
        assert isinstance(prompt, str)
        return tuple(prompt.encode())

    def extend(self, messages: tuple[Message, ...], after: Exchange | None) -> Rendered:
        raise AssertionError("these prompts are text")

    def decode(self, ids: tuple[int, ...] | list[int]) -> str:
        return bytes(ids).decode()


class Engine:
    """Goes left, then right; its tips wait for `release` where one is set."""

    def __init__(self) -> None:
        self.release: asyncio.Event | None = None
        self.tip = "left, then right"
        self.broken = False
        self.prompts: list[str] = []

    async def sample(self, prompt_ids: tuple[int, ...], sampling: Sampling) -> Sample:
        prompt = bytes(prompt_ids).decode()
        self.prompts.append(prompt)
        if prompt.startswith("tip on"):
            if self.release is not None:
                await self.release.wait()
            if self.broken:
                raise EngineError("the engine is gone")
            text = self.tip
        else:
            text = "left" if "door 0" in prompt else "right"
        ids = tuple(text.encode())
        return Sample(
            id="1",
            response_ids=ids,
            logprobs=(-1.0,) * len(ids),
            versions=(0,) * len(ids),
            finish_reason=FinishReason.STOP,
        )


@pytest.fixture
def buffer(tmp_path: Path) -> Iterator[ReplayBuffer]:
    with EmbeddedServer(tmp_path / "server") as server:
        opened = ReplayBuffer(server.url, "run")
        yield opened
        opened.close()


class Agent:
    """Plays tickets as an agent actor does."""

    def __init__(self, buffer: ReplayBuffer, rules: TipRules | None = None) -> None:
        self.engine = Engine()
        self.tips = AgentTips(buffer, CachedEmbedder(load_embedder("words")), rules or TipRules())
        self.policy = EnginePolicy("agent", self.engine, Letters(), SAMPLING, context_length=1000)

    async def play(
        self, name: str, draw: str = "plain", *, namespace: str = "train", path: str = "lr"
    ) -> Trial:
        env = await LocalEnvs(TipHall).open()
        split = Split.TRAIN if namespace == "train" else Split.EVAL
        order = Ticket(
            id=name,
            task=Task(environment="hall", instance=path, split=split),
            member=0,
            mode=Mode(method="empo2", draw=draw, tips=namespace),
        )
        conversation = self.policy.conversation()
        return await play_trial(
            order,
            env,
            conversation,
            strategy_of(order.mode),
            Limits(max_turns=5),
            tips=self.tips.of(order, conversation, TipHall.style),
        )

    async def written(self) -> None:
        """Until no tip is under way."""
        async with asyncio.timeout(20):
            while self.tips.pending:
                await asyncio.wait(list(self.tips.writing))


@pytest.fixture
async def agent(buffer: ReplayBuffer) -> AsyncIterator[Agent]:
    made = Agent(buffer)
    yield made
    await made.tips.settle(1.0)


async def test_a_tip_is_stored_for_each_step_and_shown_to_later_trials(
    agent: Agent, buffer: ReplayBuffer
) -> None:
    first = await agent.play("a")
    await agent.written()
    log = buffer.read_tips("train", "hall:lr")
    assert [(t.text, t.action, t.score, t.step, t.source) for t in log.entries] == [
        ("left, then right", "left", 2.0, 0, "a:0"),
        ("left, then right", "right", 2.0, 1, "a:0"),
    ]
    assert first.success
    second = await agent.play("b", "tips")
    assert [turn.memory_snapshot for turn in second.episodes[0].turns] == ["hall:lr@2", "hall:lr@2"]
    assert "left, then right at door 0 of 2" in agent.engine.prompts
    assert agent.tips.counts.recalled == 2


async def test_a_reader_sees_what_another_agent_wrote(agent: Agent, buffer: ReplayBuffer) -> None:
    other = Agent(buffer)
    await other.play("a")
    await other.written()
    trial = await agent.play("b", "off_policy")
    (turn, _) = trial.episodes[0].turns
    assert bytes(turn.prompt_ids).decode() == "left, then right at door 0 of 2"
    assert bytes(turn.student_prompt_ids or ()).decode() == " at door 0 of 2"
    await other.tips.settle(1.0)


async def test_what_a_turn_read_can_be_looked_up_by_its_snapshot(agent: Agent, buffer: ReplayBuffer) -> None:
    for name in ("a", "b"):
        await agent.play(name)
        await agent.written()
        agent.engine.tip = "never look back"
    trial = await agent.play("c", "tips")
    task, _, version = trial.episodes[0].turns[0].memory_snapshot.partition("@")
    book, log = TipBook(task), buffer.read_tips("train", task)
    book.follow(int(version), log.entries[: int(version)], log.first_kept)
    query = load_embedder("words").embed(["door 0 of 2"])[0]
    shown = bytes(trial.episodes[0].turns[0].prompt_ids).decode().partition(" at ")[0].split("|")
    assert [tip.text for tip in book.recall(query)] == shown == ["never look back", "left, then right"]


async def test_the_trial_is_over_before_its_tip_is(agent: Agent, buffer: ReplayBuffer) -> None:
    agent.engine.release = asyncio.Event()
    trial = await asyncio.wait_for(agent.play("a"), 20)
    assert trial.success
    assert agent.tips.pending == 1
    assert buffer.read_tips("train", "hall:lr").version == 0
    agent.engine.release.set()
    await agent.written()
    assert buffer.read_tips("train", "hall:lr").version == 2


async def test_of_too_many_tips_at_once_the_rest_is_not_written_and_counted(buffer: ReplayBuffer) -> None:
    agent = Agent(buffer, TipRules(pending=1))
    agent.engine.release = asyncio.Event()
    for name in "abc":
        await agent.play(name)
    assert (agent.tips.pending, agent.tips.counts.skipped) == (1, 2)
    agent.engine.release.set()
    await agent.written()
    assert agent.tips.counts.written == 1
    await agent.tips.settle(1.0)


async def test_a_tip_that_cannot_be_had_is_counted_and_disturbs_nobody(
    agent: Agent, buffer: ReplayBuffer
) -> None:
    agent.engine.broken = True
    assert (await agent.play("a")).failure is None
    await agent.written()
    agent.engine.broken, agent.engine.tip = False, ""
    assert (await agent.play("b")).failure is None
    await agent.written()
    counts = agent.tips.counts
    assert (counts.failed, counts.empty, counts.written) == (1, 1, 0)
    assert buffer.read_tips("train", "hall:lr").version == 0


async def test_a_tip_that_never_ends_at_the_end_is_left_out(agent: Agent) -> None:
    agent.engine.release = asyncio.Event()
    await agent.play("a")
    await agent.tips.settle(0.05)
    assert agent.tips.counts.failed == 1


async def test_the_same_episode_written_again_counts_once(agent: Agent, buffer: ReplayBuffer) -> None:
    for _ in range(2):  # as after a lost lease
        await agent.play("a")
        await agent.written()
        agent.engine.tip = "another text"
    assert {tip.text for tip in buffer.read_tips("train", "hall:lr").entries} == {"left, then right"}


async def test_evaluation_leaves_no_trace(agent: Agent, buffer: ReplayBuffer) -> None:
    await agent.play("a", namespace="")
    assert agent.tips.pending == 0
    assert buffer.tip_namespaces() == []


async def test_namespaces_keep_to_themselves(agent: Agent, buffer: ReplayBuffer) -> None:
    await agent.play("a", namespace="adapt-1")
    await agent.written()
    await agent.play("b", "tips")
    assert agent.tips.counts.recalled == 0
    assert buffer.tip_namespaces() == ["adapt-1"]
    await agent.play("c", "tips", namespace="adapt-1")
    assert agent.tips.counts.recalled == 2


async def test_one_book_for_all_instances_where_the_scope_says_so(buffer: ReplayBuffer) -> None:
    agent = Agent(buffer, TipRules(scope="environment"))
    await agent.play("a", path="lr")
    await agent.written()
    await agent.play("b", "tips", path="lrr")
    assert agent.tips.counts.recalled > 0
    await agent.tips.settle(1.0)


async def test_by_the_key_chat_a_situation_is_its_whole_prompt(buffer: ReplayBuffer) -> None:
    agent = Agent(buffer, TipRules(key="chat"))
    await agent.play("a")
    await agent.written()
    (first, _) = buffer.read_tips("train", "hall:lr").entries
    embedder = load_embedder("words")
    book = TipBook("hall:lr")
    book.add([first])
    assert book.recall(embedder.embed([" at door 0 of 2"])[0], min_cosine=0.999)
    assert not book.recall(embedder.embed(["door 0 of 2"])[0], min_cosine=0.999)
    await agent.tips.settle(1.0)


async def test_a_bug_in_writing_surfaces_with_the_next_trial(agent: Agent) -> None:
    class Faulty(TipStyle):
        def parse_tip(self, response: str) -> ParsedReflection:
            raise KeyError("tip")

    order = Ticket(
        id="a",
        task=Task(environment="hall", instance="lr"),
        member=0,
        mode=Mode(method="empo2", tips="train"),
    )
    conversation = agent.policy.conversation()
    tips = agent.tips.of(order, conversation, Faulty())
    await play_trial(
        order,
        await LocalEnvs(TipHall).open(),
        conversation,
        strategy_of(order.mode),
        Limits(max_turns=5),
        tips=tips,
    )
    await agent.written()
    with pytest.raises(KeyError, match="tip"):
        await agent.play("b")


async def test_a_store_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "server")
    server.start()
    buffer = ReplayBuffer(server.url, "run", deadline_s=60.0)
    agent = Agent(buffer)
    await agent.play("a")
    await agent.written()
    server.kill()
    playing = asyncio.ensure_future(agent.play("b", "tips"))
    await asyncio.sleep(0)  # the trial is under way, and asks for its book
    server.start()
    trial = await asyncio.wait_for(playing, 60)
    assert trial.failure is None
    assert agent.tips.counts.recalled == 2
    await agent.written()
    await agent.tips.settle(1.0)
    buffer.close()
    server.stop()


async def test_a_store_that_is_gone_is_a_failure_of_the_infrastructure(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "server")
    server.start()
    buffer = ReplayBuffer(server.url, "run", deadline_s=0.2)
    agent = Agent(buffer)
    server.stop()
    trial = await asyncio.wait_for(agent.play("a", "tips"), 30)
    assert trial.failure is not None
    assert trial.failure.kind is FailureKind.INFRASTRUCTURE
    assert "replay server" in trial.failure.what
    lost = await asyncio.wait_for(agent.play("b"), 30)  # plays without tips; its own can't be stored
    assert lost.failure is None
    await agent.written()
    assert agent.tips.counts.failed == 1
    await agent.tips.settle(1.0)
    buffer.close()
