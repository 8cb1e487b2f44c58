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

ROOT = Path(__file__).resolve().parents[1]
LONG = ("env.max_turns=50", "env.options.max_turns=50")
"""For the bank the agent may search longer than it may later: what it finds late is what a hint is about."""
TRIALS, BANK = "trials.jsonl", "bank.jsonl"


def python(module: str, *arguments: str, work: Path, runs: str = ".") -> None:
    """A module in the directory of the work, so that what is recorded names files as they are called there.
    Raises CalledProcessError."""
    print(f"$ python -m {module}", *arguments, flush=True)
    subprocess.run(
        [sys.executable, "-m", module, *arguments],
        check=True,
        cwd=work,
        env={**os.environ, "AGENTMEM_RUNS": str(work / runs), "PYTHONPATH": str(ROOT)},
    )


def settings(*assignments: str) -> list[str]:
    """As `--set` options."""
    return [word for assignment in assignments for word in ("--set", assignment)]


def banked(work: Path, games: str, engine: str) -> None:
    """The bank, unless it is there; in any case it is looked at for games of the evaluation."""
    if not (work / TRIALS).is_file():
        part = work / "trials.part.jsonl"
        part.unlink(missing_ok=True)
        played = ["--out", part.name, "--tasks", games, "--trials", "1", *settings(*LONG, engine)]
        python("agentmem", "bank", "play", "mempi-alfworld", *played, work=work)
        part.rename(work / TRIALS)
    if not (work / BANK).is_file():
        python("benchmarks.alfworld_bank", TRIALS, "--out", BANK, work=work)
    python("agentmem", "bank", "check", BANK, "--against", "alfworld-eval", work=work)


def trained(recipe: str, name: str, *options: str, work: Path) -> None:
    """Run a recipe to its end and keep its final model under a name, unless it is there."""
    model, runs = work / name, work / f"{name}-runs"
    if model.is_dir():
        return
    begun = sorted(runs.glob(f"{recipe}-*")) if runs.is_dir() else []
    resume = ["--resume", begun[-1].name] if begun and any((begun[-1] / "checkpoints").iterdir()) else []
    python("agentmem", "run", recipe, *options, *resume, work=work, runs=runs.name)
    newest = sorted(runs.glob(f"{recipe}-*"))[-1]
    part = work / f"{name}.part"
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
    engine = f"engines.memory.backend={given.engine}"
    banked(work, given.games, engine)
    seeds = given.seeds.split(",")
    of_seed = {
        seed: settings(f"seed={seed}", f"policies.memory.warmup.seed={seed}", engine) for seed in seeds
    }
    alone = settings("evaluation.conditions=[with_memory]")  # the arm `none` is the agent without advice
    record = ["--record", "--arm", "mempi-alfworld"] if given.record else []
    for seed in seeds:
        stage1, full, learnt = f"stage1-{seed}", f"full-{seed}", settings(f"advice.stage1.bank={BANK}")
        trained("mempi-alfworld-stage1", stage1, *of_seed[seed], *learnt, work=work)
        begin = settings(f"policies.memory.model=./{stage1}")
        trained("mempi-alfworld", full, *of_seed[seed], *begin, *alone, *record, work=work)
    for number, seed in enumerate(seeds):
        known = [word for before in seeds[:number] for word in ("--known", f"arms-{before}")]
        models = ["--bank", BANK, "--stage1", f"stage1-{seed}", "--full", f"full-{seed}"]
        out = ["--out", f"arms-{seed}", "--seed", seed]
        python("agentmem", "arms", "mempi-alfworld", *models, *out, *known, *of_seed[seed], work=work)
    python("agentmem", "compare", *(f"arms-{seed}" for seed in seeds), work=work)


if __name__ == "__main__":
    main()
