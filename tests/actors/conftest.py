"""A real server, a tiny model and its engine, for all tests of the actors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import ray

from actors.agent_settings import AgentSettings, by_kind
from actors.engine.actor import create as create_engine
from actors.engine.protocol import EngineConfig
from actors.rollout.env_wire import EnvSettings
from agentmem.config.schema import SamplingConfig
from agentmem.replay import EmbeddedServer, ReplayBuffer, Settings
from agentmem.trajectory import Mode, Task, Ticket
from envs.minesweeper.vocabulary import words
from envs.registry import instances

MINESWEEPER = {"size": 4, "mines": 3, "format": "compact", "max_clicks": 6}
START_S = 180.0
"""Cold imports on a busy machine."""


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as it:
        yield it


@pytest.fixture
def open_buffer(server: EmbeddedServer) -> Iterator[Callable[..., ReplayBuffer]]:
    """Opens this test's run with the settings given."""
    run, opened = f"run-{uuid4().hex[:8]}", []

    def open_one(**settings: Any) -> ReplayBuffer:
        opened.append(ReplayBuffer(server.url, run, settings=Settings(**settings)))
        return opened[-1]

    yield open_one
    for buffer in opened:
        buffer.close()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with random weights, and a word-level tokenizer for MineSweeper's compact prompts."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM

    path = tmp_path_factory.mktemp("model")
    special = ["<pad>", "<bos>", "<eos>", "<unk>"]
    vocab = {word: i for i, word in enumerate([*special, *words(4, 3)])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<bos>", "eos_token": "<eos>"}))
    config = LlamaConfig(
        vocab_size=len(vocab),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=128,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def engine(cluster: None, model: Path) -> Iterator[Any]:
    config = EngineConfig(model=str(model), kind="torch", max_model_len=128)
    handle = create_engine(config, "agent-0", num_cpus=0)
    ray.get(handle.start.remote(), timeout=START_S)
    yield handle
    ray.kill(handle)


@pytest.fixture
def settings(server: EmbeddedServer, model: Path) -> Callable[..., AgentSettings]:
    """Settings of an agent on MineSweeper, or on another environment."""

    def of(buffer: ReplayBuffer, env: EnvSettings | None = None, **more: Any) -> AgentSettings:
        sampling = by_kind(SamplingConfig(max_tokens=1, reflect_max_tokens=1), tip_tokens=1)
        defaults: dict[str, Any] = {
            "placement": "worker" if env else "local",
            "model": str(model),
            "context_length": 64,
            "max_turns": 6,
            "sampling": sampling,
            "eval_sampling": sampling,
            "trials_in_flight": 16,
        }
        return AgentSettings(
            run=buffer.run,
            replay_url=server.url,
            replay=buffer.settings,
            env=env or EnvSettings.named("minesweeper", MINESWEEPER),
            **{**defaults, **more},
        )

    return of


def minesweeper_tickets(
    groups: int, size: int, *, episodes: int = 3, memory: str = "history"
) -> list[Ticket]:
    boards = instances("minesweeper", MINESWEEPER, "train")
    return tickets("minesweeper", [boards[g] for g in range(groups)], size, episodes=episodes, memory=memory)


def tickets(
    env: str, places: list[Any], size: int, *, episodes: int = 3, memory: str = "history"
) -> list[Ticket]:
    return [
        Ticket(
            id=f"g{g}-{m}",
            task=Task(environment=env, instance=place, group=f"g{g}"),
            member=m,
            group_size=size,
            mode=Mode(episodes=episodes, memory=memory),
        )
        for g, place in enumerate(places)
        for m in range(size)
    ]


async def take_all(buffer: ReplayBuffer, count: int, timeout_s: float = 90.0) -> list[Any]:
    """So many groups, or an assertion that says what the buffer holds."""
    end = asyncio.get_running_loop().time() + timeout_s
    found: list[Any] = []
    while len(found) < count:
        left = end - asyncio.get_running_loop().time()
        if left <= 0:
            raise AssertionError(f"{len(found)} of {count} groups in {timeout_s:g} s: {buffer.counters()}")
        found += await asyncio.to_thread(buffer.take_groups, count - len(found), block_s=min(left, 2.0))
    return found


async def until(holds: Callable[[], Awaitable[bool]], timeout_s: float = 60.0) -> None:
    """Wait until something holds; the deadline is an assertion."""
    async with asyncio.timeout(timeout_s):
        while not await holds():
            await asyncio.sleep(0.05)
