"""What the whole rollout costs over the engine alone: trials through Redis and an agent actor, against the
very same requests sent to the same engine by a bare client, in alternating rounds.

    python -m benchmarks.rollout [--recipe lamer-minesweeper] [--trials 1024] [--rounds 3] [--save]

Printed for each round: sampled tokens per second and CPU seconds per 1,000 requests, by process. `--save`
writes `benchmarks/results/rollout.json`. A round of trials ends with its slowest trial, so its last calls
don't fill a batch; the bare client keeps its batch full to the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from actors.agent_settings import AgentSettings
from actors.batch_client import RayReplica
from actors.engine.client import EngineClient
from actors.fleet import Fleet
from agentmem.app.models.resolve import resolve_for
from agentmem.config import RunConfig, load_config
from agentmem.evaluation.held_out import evaluation_tickets
from agentmem.replay import ReplayBuffer, Settings
from agentmem.replay.embedded import EmbeddedServer
from agentmem.sampling import Sampling
from agentmem.trajectory import Mode, Trial
from benchmarks.engines import one_engine
from envs.registry import instances

Call = tuple[tuple[int, ...], Sampling]


def calls_of(trials: list[Trial]) -> list[Call]:
    """Every LLM call of these trials."""
    return [(t.prompt_ids, t.sampling) for trial in trials for t in trial.turns() if t.sampling is not None]


async def play(buffer: ReplayBuffer, config: RunConfig, count: int, batch: str) -> tuple[float, list[Trial]]:
    """Seconds from the first ticket to the last commit, and the trials."""
    mode = Mode(episodes=config.rollout.episodes, memory=config.rollout.memory)
    held_out = instances(config.env.name, config.env.options, "eval")
    many = [held_out[i % len(held_out)] for i in range(count)]
    tickets = evaluation_tickets(config.env.name, many, count, 0, batch, mode)
    began = time.perf_counter()
    buffer.submit(tickets, batch=batch)
    trials = None
    while trials is None:
        trials = await asyncio.to_thread(buffer.take_eval, batch, 1.0)
    seconds = time.perf_counter() - began
    buffer.drop_eval(batch)
    return seconds, trials


async def ask(client: EngineClient, calls: list[Call], in_flight: int) -> float:
    """Seconds for the same calls without environment, agent and buffer."""
    left = iter(calls)

    async def one_after_another() -> None:
        for prompt, sampling in left:
            await client.sample(prompt, sampling)

    began = time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(in_flight)))
    return time.perf_counter() - began


async def measure(config: RunConfig, trials: int, rounds: int, url: str) -> list[dict[str, Any]]:
    """Alternating rounds on one engine."""
    model = str(resolve_for(config))
    settings = Settings()
    buffer = ReplayBuffer(url, "benchmark", settings=settings)
    pool = one_engine(config, model)
    fleet = Fleet(
        config,
        AgentSettings.of(config, run="benchmark", replay_url=url, replay=settings, model=model),
    )
    rows = []
    await pool.start()
    try:
        await fleet.start()
        await fleet.set_engines(pool.live)
        client = EngineClient({name: RayReplica(handle) for name, handle in pool.live.items()})
        _, warm = await play(buffer, config, 128, "warm-up")
        await ask(client, calls_of(warm), config.agents.trials_in_flight)
        for number in range(rounds):
            before = (await pool.stats())[0].cpu_s, (await fleet.agent_stats())[0].cpu_s
            seconds, played = await play(buffer, config, trials, f"round-{number}")
            between = (await pool.stats())[0].cpu_s, (await fleet.agent_stats())[0].cpu_s
            calls = calls_of(played)
            tokens = sum(sum(trial.token_counts().values()) for trial in played)
            bare = await ask(client, calls, config.agents.trials_in_flight)
            after = (await pool.stats())[0].cpu_s
            per = 1000 / len(calls)
            rows.append(
                {
                    "requests": len(calls),
                    "rollout_tokens_per_s": tokens / seconds,
                    "engine_tokens_per_s": tokens / bare,
                    "ratio": bare / seconds,
                    "engine_cpu_s_per_1000": (between[0] - before[0]) * per,
                    "agent_cpu_s_per_1000": (between[1] - before[1]) * per,
                    "engine_alone_cpu_s_per_1000": (after - between[0]) * per,
                }
            )
            print({key: round(value, 3) for key, value in rows[-1].items()}, flush=True)
        await client.close()
    finally:
        await fleet.close(5.0)
        pool.close()
        buffer.close()
    return rows


def main() -> None:
    """Command line."""
    import ray

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="lamer-minesweeper")
    parser.add_argument("--trials", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true")
    chosen = parser.parse_args()
    config = load_config(chosen.recipe)
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server:
        rows = asyncio.run(measure(config, chosen.trials, chosen.rounds, server.url))
    ratio = statistics.median(row["ratio"] for row in rows)
    print(f"rollout tokens/s of the whole system: {ratio:.2f} of the engine's alone (median)")
    if chosen.save:
        path = Path(__file__).parent / "results" / "rollout.json"
        path.write_text(
            json.dumps({"recipe": chosen.recipe, "ratio": ratio, "rounds": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
