"""One-token requests per second: AsyncLLM alone against the whole path through Ray, in alternating rounds.

    python -m benchmarks.engine [--requests 6000] [--in-flight 256] [--clients 1] [--rounds 3]

Prompts of 11 random ids, one response token with its log-probability, a Llama of 312,000 parameters. Both
sides get the same requests and settings. CPU seconds per 1,000 requests are given for each process, since on
a busy machine they say more than the rate does. `--clients` spreads the requests over that many client
processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

VOCAB, PROMPT = 1186, 11
Ask = Callable[[list[int]], Awaitable[None]]


def make_model(folder: Path) -> None:
    """The model of the reference figures, with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).float().save_pretrained(folder)


async def drive(ask: Ask, requests: int, in_flight: int, seed: int) -> None:
    """Keep `in_flight` requests going until all are answered."""
    left = requests
    choose = random.Random(seed).choices

    async def one_after_another() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await ask(choose(range(VOCAB), k=PROMPT))

    await asyncio.gather(*(one_after_another() for _ in range(in_flight)))


def cpu_seconds(pid: int) -> float:
    import psutil

    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


class Client:
    """A client process, as an agent actor would be one."""

    async def setup(self, handle: Any) -> int:
        from actors.batch_client import RayReplica
        from actors.engine.client import EngineClient

        self._client = EngineClient({"engine": RayReplica(handle)})
        return os.getpid()

    async def run(self, requests: int, in_flight: int, seed: int) -> None:
        from agentmem.sampling import Sampling

        sampling = Sampling(max_tokens=1)

        async def ask(prompt: list[int]) -> None:
            await self._client.sample(prompt, sampling)

        await drive(ask, requests, in_flight, seed)

    async def close(self) -> None:
        await self._client.close()


class ThroughRay:
    """Engine actor and client processes."""

    async def start(self, model: str, max_num_seqs: int, clients: int) -> None:
        import ray

        from actors.engine import actor
        from actors.engine.protocol import EngineConfig

        self._engine = actor.create(
            EngineConfig(model=model, max_num_seqs=max_num_seqs), "engine", num_cpus=0
        )
        await self._engine.start.remote()
        made = ray.remote(Client).options(num_cpus=0)
        self._clients = [made.remote() for _ in range(clients)]
        pids = await asyncio.gather(*(client.setup.remote(self._engine) for client in self._clients))
        self.processes = {"engine": [(await self._engine.stats.remote()).pid], "clients": list(pids)}

    async def run(self, requests: int, in_flight: int, seed: int) -> None:
        count = len(self._clients)
        await asyncio.gather(
            *(
                client.run.remote(requests // count, in_flight // count, seed + i)
                for i, client in enumerate(self._clients)
            )
        )

    async def close(self) -> None:
        await asyncio.gather(*(client.close.remote() for client in self._clients))
        await self._engine.close.remote()


class AsyncLlmAlone:
    """vLLM's own asynchronous engine, its front end in this process."""

    async def start(self, model: str, max_num_seqs: int, clients: int) -> None:
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        import psutil
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = AsyncEngineArgs(
            model=model,
            skip_tokenizer_init=True,
            dtype="float32",
            max_model_len=512,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=8192,
            enforce_eager=True,
            logprobs_mode="processed_logprobs",
            disable_log_stats=True,
            seed=0,
        )
        before = {child.pid for child in psutil.Process().children(recursive=True)}
        self._engine = AsyncLLM.from_engine_args(arguments)
        after = {child.pid for child in psutil.Process().children(recursive=True)}
        self.processes = {"front end": [os.getpid()], "engine core": sorted(after - before)}
        self._number = 0

    async def run(self, requests: int, in_flight: int, seed: int) -> None:
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(
            max_tokens=1, logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY
        )

        async def ask(prompt: list[int]) -> None:
            self._number += 1
            tokens = TokensPrompt(prompt_token_ids=prompt)
            async for _ in self._engine.generate(tokens, sampling, str(self._number)):
                pass

        await drive(ask, requests, in_flight, seed)

    async def close(self) -> None:
        self._engine.shutdown()


async def measure(side: Any, requests: int, in_flight: int, seed: int) -> dict[str, float]:
    """Rate, and CPU seconds per 1,000 requests by process."""
    before = {name: sum(map(cpu_seconds, pids)) for name, pids in side.processes.items()}
    began = time.perf_counter()
    await side.run(requests, in_flight, seed)
    wall = time.perf_counter() - began
    spent = {name: sum(map(cpu_seconds, pids)) - before[name] for name, pids in side.processes.items()}
    return {"per_s": requests / wall, **{f"cpu {name}": 1000 * s / requests for name, s in spent.items()}}


async def compare(model: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    sides: dict[str, Any] = {"AsyncLLM": AsyncLlmAlone(), "engine over Ray": ThroughRay()}
    results: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for side in sides.values():
        await side.start(model, options.max_num_seqs, options.clients)
        await measure(side, options.in_flight * 2, options.in_flight, 0)
    for number in range(options.rounds):
        for name, side in sides.items():
            results[name].append(await measure(side, options.requests, options.in_flight, number + 1))
            print(f"{name:16s}", "  ".join(f"{key} {value:.3f}" for key, value in results[name][-1].items()))
    for side in sides.values():
        await side.close()
    return {
        name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        for name, rounds in results.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--max-num-seqs", type=int, default=128)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--model", default="", help="directory; default: a random model of 312,000 parameters"
    )
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            make_model(Path(folder))
        medians = asyncio.run(compare(options.model or folder, options))
    medians["ratio"] = {"per_s": medians["engine over Ray"]["per_s"] / medians["AsyncLLM"]["per_s"]}
    print(json.dumps(medians, indent=2))
    ray.shutdown()


if __name__ == "__main__":
    main()
