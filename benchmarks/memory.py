"""What EMPO²'s memory costs in the rollout, with a real small model and answers of 32 tokens.

    python -m benchmarks.memory [--trials 8] [--rounds 3] [--save]

SmolLM2-135M plays MineSweeper in text, single episodes. Rounds alternate on one engine, A B A B:

- `read`: tips in the prompts (all-MiniLM-L6-v2, a book of 1,000, ten a prompt) against none;
- `write`: the same, and the policy writes a tip of at most 32 tokens after each episode, against none.

A round lasts until all its trials are committed and its tips are written. The figure is seconds per token
that was sampled to act, with memory over without; EMPO²'s paper pays 1.19. `--save` writes
`benchmarks/results/memory.json`, with the machine's load before each round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from actors.agent_settings import AgentSettings
from actors.fleet import Fleet
from agentmem.app.models.resolve import resolve_for
from agentmem.app.reporting.table import aligned
from agentmem.config import RunConfig, load_config
from agentmem.memory.embedding import load_embedder
from agentmem.memory.tips import Tip, encode_key
from agentmem.replay import ReplayBuffer, Settings
from agentmem.replay.embedded import EmbeddedServer
from agentmem.trajectory import Mode, Split, Task, Ticket, Trial
from benchmarks.engines import one_engine
from envs.registry import instances, make

RESULTS = Path(__file__).parent / "results" / "memory.json"
BOOK = 1000
Row = dict[str, Any]

SETTINGS = (
    "policies.agent.model=smollm2",
    "method=empo2",
    "rollout.episodes=1",
    "rollout.memory=none",
    "rollout.sampling.max_tokens=32",
    "evaluation.sampling.max_tokens=32",
    "memory.tips.max_tokens=32",
    "memory.tips.scope=environment",
    "memory.embedder=minilm",
    "credit.estimator=grpo",
)


def filled(buffer: ReplayBuffer, config: RunConfig, namespace: str) -> None:
    """A full book: boards of the training split, a sentence of about 20 words on each."""
    env = make(config.env.name, config.env.options)
    boards = [
        env.reset(options={"instance": instance})[0]
        for instance in list(instances(config.env.name, config.env.options, "train"))[:BOOK]
    ]
    keys = load_embedder("minilm").embed(boards)
    for n, key in enumerate(keys):
        source = f"given-{n}:0"
        text = (
            f"On board {n} the cell beside the highest number was a mine, so open the cells next to small "
            "numbers first and leave the corners for the end."
        )
        tip = Tip(text, "(1,1)", n / BOOK, 0, source, encode_key(key))
        buffer.add_tips(namespace, config.env.name, [tip], source)


async def play(
    buffer: ReplayBuffer, fleet: Fleet, config: RunConfig, trials: int, batch: str, namespace: str
) -> Row:
    """One round: all trials at once, until they are committed and nothing is being written."""
    mode = Mode(method="empo2", draw="tips" if namespace else "plain", tips=namespace)
    boards = list(instances(config.env.name, config.env.options, "eval"))[:trials]
    tickets = [
        Ticket(
            id=f"{batch}-{n}",
            task=Task(environment=config.env.name, instance=board, split=Split.EVAL, group=batch),
            member=0,
            mode=mode,
        )
        for n, board in enumerate(boards)
    ]
    load, began = os.getloadavg()[0], time.perf_counter()
    cpu = await agent_cpu_s(fleet)
    buffer.submit(tickets, batch=batch)
    while not buffer.eval_status(batch).complete:
        await asyncio.sleep(0.02)
    while any(stats.tips_pending for stats in await fleet.agent_stats()):
        await asyncio.sleep(0.02)
    seconds = time.perf_counter() - began
    played: list[Trial] = buffer.eval_results(batch)
    buffer.drop_eval(batch)
    turns = [turn for trial in played for episode in trial.episodes for turn in episode.turns]
    tokens = sum(len(turn.response_ids or ()) for turn in turns)
    return {
        "round": batch,
        "load_before": round(load, 1),
        "turns": len(turns),
        "prompt_tokens": round(statistics.fmean(len(turn.prompt_ids) for turn in turns), 1),
        "act_tokens": tokens,
        "seconds": round(seconds, 2),
        "ms_per_token": round(1000 * seconds / tokens, 3),
        "agent_cpu_s": round(await agent_cpu_s(fleet) - cpu, 2),
    }


async def agent_cpu_s(fleet: Fleet) -> float:
    """CPU seconds of all agents so far."""
    return sum(stats.cpu_s for stats in await fleet.agent_stats())


async def measure(config: RunConfig, trials: int, rounds: int, url: str) -> list[Row]:
    """All rounds of both comparisons."""
    model = str(resolve_for(config))
    settings = Settings()
    buffer = ReplayBuffer(url, "benchmark", settings=settings)
    filled(buffer, config, "full")
    pool = one_engine(config, model)
    rows: list[Row] = []
    await pool.start()
    try:
        for what in ("read", "write"):
            agent = AgentSettings.of(config, run="benchmark", replay_url=url, replay=settings, model=model)
            assert agent.tips is not None
            if what == "read":
                agent = msgspec.structs.replace(agent, tips=replace(agent.tips, pending=0))
            fleet = Fleet(config, agent)
            try:
                await fleet.start()
                await fleet.set_engines(pool.live)
                await play(buffer, fleet, config, 2, f"{what}-warm", "full")
                for number in range(rounds):
                    for arm, namespace in (("off", ""), ("on", "full")):
                        row = await play(buffer, fleet, config, trials, f"{what}-{number}-{arm}", namespace)
                        rows.append({"what": what, "arm": arm, **row})
                        print(rows[-1], flush=True)
            finally:
                await fleet.close(5.0)
    finally:
        pool.close()
        buffer.close()
    return rows


def ratios(rows: list[Row]) -> dict[str, list[float]]:
    """With memory over without, of each neighbouring pair."""
    found: dict[str, list[float]] = {}
    for off, on in zip(rows[::2], rows[1::2], strict=True):
        found.setdefault(on["what"], []).append(round(on["ms_per_token"] / off["ms_per_token"], 3))
    return found


def main() -> None:
    """Command line."""
    import ray

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    config = load_config("lamer-minesweeper", SETTINGS)
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    with EmbeddedServer() as server:
        rows = asyncio.run(measure(config, given.trials, given.rounds, server.url))
    ray.shutdown()
    print("\n".join(aligned(list(rows[0]), [[str(v) for v in row.values()] for row in rows])))
    found = ratios(rows)
    for what, values in found.items():
        print(f"seconds per acted token, with memory ({what}) over without: {', '.join(map(str, values))}")
    if given.save:
        RESULTS.write_text(json.dumps({"rows": rows, "ratios": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
