"""Plays held-out compact boards with a model in this process: p@1, p@2, ... by plain sampling.

A measure of a warm start that needs no engine: `python -m tests.models.play DIRECTORY [--notes]`.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from agentmem.chat import ChatCodec
from envs import registry
from envs.base import EpisodeMemory, EpisodeRecord, View

OPTIONS = {"size": 4, "mines": 3, "format": "compact", "max_clicks": 6}


class Sampler:
    """One token at a temperature for each of many raw prompts."""

    def __init__(self, path: Path, temperature: float, seed: int) -> None:
        self.codec = ChatCodec(path)
        self.model = AutoModelForCausalLM.from_pretrained(str(path)).eval()
        self.temperature, self.generator = temperature, torch.Generator().manual_seed(seed)

    @torch.inference_mode()
    def __call__(self, prompts: list[str]) -> list[str]:
        rows = [self.codec.encode(prompt) for prompt in prompts]
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
        last = torch.tensor([len(row) - 1 for row in rows])
        logits = self.model(input_ids=ids).logits[torch.arange(len(rows)), last]
        chosen = torch.multinomial(
            (logits / self.temperature).softmax(-1), 1, generator=self.generator
        ).squeeze(1)
        return [self.codec.decode([int(i)]) for i in chosen]


def play(
    path: Path, *, tasks: int = 512, attempts: int = 3, turns: int = 6, memory: str = "history", seed: int = 0
) -> list[float]:
    """p@1 .. p@attempts on `tasks` held-out boards (`memory`: history, reflection or none)."""
    sample = Sampler(path, 0.7, seed)
    style = registry.style("minesweeper", OPTIONS)
    boards = random.Random(seed).sample(list(registry.instances("minesweeper", OPTIONS, "eval")), tasks)
    envs = [registry.make("minesweeper", OPTIONS) for _ in boards]
    for env, board in zip(envs, boards, strict=True):
        env.reset(options={"instance": board})
    memories: list[tuple[EpisodeMemory, ...]] = [() for _ in boards]
    open_ = list(range(tasks))
    solved, curve = 0, []
    for attempt in range(attempts):
        seen = {i: envs[i].restart()[0] for i in open_}
        running, won = list(open_), set()
        for _ in range(turns):
            views = [View(seen[i], episode=attempt, episodes=attempts, memory=memories[i]) for i in running]
            answers = sample([style.act_prompt(view) for view in views])
            still = []
            for i, answer in zip(running, answers, strict=True):
                seen[i], _, over, _, info = envs[i].step(style.parse_action(answer).text)
                won |= {i} if info["success"] else set()
                still += [] if over else [i]
            running = still
            if not running:
                break
        solved += len(won)
        curve.append(solved / tasks)
        open_ = [i for i in open_ if i not in won]
        records = {i: EpisodeRecord(attempt, (), seen[i], False, "failure") for i in open_}
        notes: dict[int, str | None] = dict.fromkeys(open_)
        if memory == "reflection" and open_:
            asked = [style.reflect_prompt(View(seen[i], episode=attempt), records[i]) for i in open_]
            notes = {i: style.parse_reflection(a).text for i, a in zip(open_, sample(asked), strict=True)}
        for i in open_ if memory != "none" else ():
            summary = style.summarise(records[i]) if memory == "history" else None
            memories[i] += (EpisodeMemory(attempt, False, summary, notes[i]),)
    return curve


def main() -> None:
    """Print p@k with and without memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--notes", action="store_true", help="memory is the model's own notes")
    parser.add_argument("--tasks", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    for seed in range(given.seeds):
        for memory in ("reflection" if given.notes else "history", "none"):
            curve = play(given.path, tasks=given.tasks, memory=memory, seed=seed)
            print(f"seed {seed} {memory:<10} " + " ".join(f"p@{k}={p:.3f}" for k, p in enumerate(curve, 1)))


if __name__ == "__main__":
    main()
