"""Mem-π on real ALFWorld games, from the bank to the table, for several seeds.

    python -m benchmarks.mempi_alfworld WORK [--seeds 0,1,2] [--engine torch] [--record]

What is there already isn't made again, so an interrupted command goes on:

    WORK/trials.jsonl      the agent's own courses on training games (`agentmem bank play`)
    WORK/bank.jsonl        hints that a rule finds in them (`benchmarks.alfworld_bank`)
    WORK/stage1-SEED       Stage 1's model, WORK/full-SEED Stage 2's
    WORK/arms-SEED         all arms on the 134 held-out games (`agentmem arms`)

The seed is the model's first weights', Stage 1's order, Stage 2's games and samples, and the retrieval arms'
training games. All seeds share one bank. At the end `agentmem compare` prints the table.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

LONG = ("env.max_turns=50", "env.options.max_turns=50")
"""For the bank the agent may search longer than it may later: what it finds late is what a hint is about."""


def agentmem(*arguments: str | Path, runs: Path) -> None:
    """One command, in this Python. Raises CalledProcessError."""
    told = [str(argument) for argument in arguments]
    print("$ agentmem", *told, flush=True)
    subprocess.run(
        [sys.executable, "-m", "agentmem", *told],
        check=True,
        env={**os.environ, "AGENTMEM_RUNS": str(runs)},
    )


def settings(*assignments: str) -> list[str]:
    """As `--set` options."""
    return [word for assignment in assignments for word in ("--set", assignment)]


def seeded(seed: str, *more: str) -> list[str]:
    """The settings of a seed."""
    return settings(f"seed={seed}", f"policies.memory.warmup.seed={seed}", *more)


def trained(recipe: str, model: Path, *options: str) -> None:
    """Run a recipe to its end and keep its final model, unless it is there."""
    if model.is_dir():
        return
    runs = model.with_name(f"{model.name}-runs")
    begun = sorted(runs.glob(f"{recipe}-*")) if runs.is_dir() else []
    resume = ["--resume", begun[-1].name] if begun and any((begun[-1] / "checkpoints").iterdir()) else []
    agentmem("run", recipe, *options, *resume, runs=runs)
    newest = sorted(runs.glob(f"{recipe}-*"))[-1]
    part = model.with_name(f"{model.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(newest / "final_model", part)
    part.rename(model)


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--games", default="800", help="training games that the bank is made of")
    parser.add_argument("--engine", default="torch", choices=("torch", "vllm"))
    parser.add_argument("--record", action="store_true", help="append Stage 2's results to learning.jsonl")
    given = parser.parse_args()
    work: Path = given.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    trials, bank, engine = (
        work / "trials.jsonl",
        work / "bank.jsonl",
        f"engines.memory.backend={given.engine}",
    )
    if not bank.is_file():
        of_games = ["--tasks", given.games, "--trials", "1", *settings(*LONG, engine)]
        if not trials.is_file():
            part = work / "trials.part.jsonl"
            part.unlink(missing_ok=True)
            agentmem("bank", "play", "mempi-alfworld", "--out", part, *of_games, runs=work)
            part.rename(trials)
        subprocess.run(
            [sys.executable, "-m", "benchmarks.alfworld_bank", str(trials), "--out", str(bank)], check=True
        )
    agentmem("bank", "check", bank, "--against", "alfworld-eval", runs=work)
    seeds = given.seeds.split(",")
    for seed in seeds:
        stage1, full, of_seed = work / f"stage1-{seed}", work / f"full-{seed}", seeded(seed, engine)
        trained("mempi-alfworld-stage1", stage1, *of_seed, *settings(f"advice.stage1.bank={bank}"))
        alone = settings("evaluation.conditions=[with_memory]")  # the arm `none` is the agent without advice
        record = ["--record", "--arm", "mempi-alfworld"] if given.record else []
        begin = settings(f"policies.memory.model={stage1}")
        trained("mempi-alfworld", full, *of_seed, *begin, *alone, *record)
    for seed in seeds:
        known = [word for other in seeds if other < seed for word in ("--known", str(work / f"arms-{other}"))]
        models: list[str | Path] = [
            "--bank",
            bank,
            "--stage1",
            work / f"stage1-{seed}",
            "--full",
            work / f"full-{seed}",
        ]
        out: list[str | Path] = ["--out", work / f"arms-{seed}", "--seed", seed]
        agentmem("arms", "mempi-alfworld", *models, *out, *known, *seeded(seed, engine), runs=work)
    agentmem("compare", *(work / f"arms-{seed}" for seed in seeds), runs=work)


if __name__ == "__main__":
    main()
