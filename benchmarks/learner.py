"""What the learner costs: next to a plain torch loop, to padding, and to unmerged turns. One CPU thread.

    python -m benchmarks.learner [--repeats 5] [--out benchmarks/results/learner.json]

Four tables, each alternating its two sides in one run; CPU seconds, best of the repeats:

*engine*   one update (about 900 one-token rows of 8 to 12 tokens, 4 mini-batches) of the 312,000-parameter
           Llama by `LearnerRank` (DeepSpeed), next to a plain torch loop over the same micro-batches.
*plan*     forward and backward over sequences of 50 to 800 tokens: sorted by length under a token budget,
           padded in random order at the same number of sequences a batch, packed with a block mask.
*merge*    trials of 15 turns whose prompts extend each other: merged into one sequence, next to a row a turn.
*clone*    behaviour cloning (`learner.sft`) of the same model on short rows: tokens a second.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from agentmem.config.learning import LearnerConfig, ObjectiveConfig
from agentmem.sampling import Sampling
from learner.batching.tensors import MicroBatch, Shard, shards
from learner.loss import DeviceBatch, logprobs, share
from learner.model import PolicyModel
from learner.rank import LearnerRank
from learner.row import Row
from learner.settings import RankSettings
from learner.sft import SftConfig, train
from learner.zero import quiet

VOCABULARY = 1186
OBJECTIVE = ObjectiveConfig(entropy_coef=0.005)


def new_model(positions: int = 1024) -> Any:
    """The tiny Llama of the small-model setting: 312,000 parameters."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=192,
        max_position_embeddings=positions,
        tie_word_embeddings=False,
    )
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", dtype=torch.float32)


def row(rng: random.Random, prompt: Sequence[int], response: Sequence[int], trial: int) -> Row:
    """A training row with a random advantage."""
    return Row(
        prompt=tuple(prompt),
        response=tuple(response),
        engine=tuple(-3.0 for _ in response),
        versions=tuple(0 for _ in response),
        sampling=Sampling(max_tokens=len(response)),
        advantage=rng.gauss(0, 1),
        trial=trial,
    )


def ids(rng: random.Random, n: int) -> list[int]:
    """Random token ids."""
    return [rng.randrange(1, VOCABULARY) for _ in range(n)]


def game_rows(rng: random.Random, distinct: float) -> list[Row]:
    """About 900 rows as a game gives them; `distinct` is the share of prompts that occur once."""
    prompts = [ids(rng, rng.randint(7, 11)) for _ in range(int(900 * distinct))]
    return [row(rng, prompts[i % len(prompts)], ids(rng, 1), i // 7) for i in range(900)]


def best(repeats: int, *sides: Callable[[], float]) -> list[float]:
    """CPU seconds of each side, alternating, best of the repeats after one round to warm up."""
    seen = [[side() for side in sides] for _ in range(repeats + 1)][1:]
    return [min(column) for column in zip(*seen, strict=True)]


def engine_table(repeats: int, distinct: float) -> dict[str, float]:
    """DeepSpeed next to a plain loop over the same shard."""
    cfg = LearnerConfig(lr=2e-3, minibatches=4, warmup_updates=0)
    rows = game_rows(random.Random(0), distinct)
    (shard,), stats = shards(rows, strategy="sorted", budget=cfg.token_budget, minibatches=4)
    with tempfile.TemporaryDirectory() as folder:
        new_model().save_pretrained(folder)
        settings = RankSettings(policy="agent", model=folder, learner=cfg, objective=OBJECTIVE)
        rank = LearnerRank(settings, device=torch.device("cpu"))
    plain = PolicyModel(new_model())
    optimiser = torch.optim.AdamW(plain.parameters(), lr=2e-3, betas=cfg.betas, weight_decay=0, fused=True)

    def ours() -> float:
        started = time.process_time()
        rank.update(shard)
        return time.process_time() - started

    def bare() -> float:
        started = time.process_time()
        torch_loop(plain, optimiser, shard)
        return time.process_time() - started

    ours_s, bare_s = best(repeats, ours, bare)
    return {
        "rows": len(rows),
        "sequences": stats.sequences,
        "deepspeed_s": ours_s,
        "torch_s": bare_s,
        "ratio": bare_s / ours_s,
    }


def torch_loop(model: PolicyModel, optimiser: torch.optim.Optimizer, shard: Shard) -> None:
    """The same update without DeepSpeed and without metrics that nobody asked for."""
    minis = [
        [DeviceBatch.of(m, torch.device("cpu"), "token") for m in mini.micro] for mini in shard.minibatches
    ]
    with torch.no_grad():
        for parts in minis[1:]:
            for batch in parts:
                logits, _ = model(batch.ids, batch.index, batch.positions, batch.value_at)
                batch.old = logprobs(logits, batch, entropy_grad=False)[0]
    for mini, parts in zip(shard.minibatches, minis, strict=True):
        for batch in parts:
            logits, values = model(batch.ids, batch.index, batch.positions, batch.value_at)
            loss, _ = share(logits, values, batch, mini, OBJECTIVE)
            torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def gradient_pass(model: PolicyModel, micros: Sequence[MicroBatch]) -> float:
    """CPU seconds of forward and backward over micro-batches."""
    started = time.process_time()
    for micro in micros:
        batch = DeviceBatch.of(micro, torch.device("cpu"), "token")
        logits, _ = model(batch.ids, batch.index, batch.positions, batch.value_at)
        logp, _ = logprobs(logits, batch, entropy_grad=False)
        torch.autograd.backward(-(logp * batch.advantage).sum() / len(micros))
    model.zero_grad(set_to_none=True)
    return time.process_time() - started


def micro_batches(rows: Sequence[Row], *, budget: int, merge: bool = False, strategy: Any = "sorted") -> Any:
    """All micro-batches of a one-step plan, and its counts."""
    (shard,), stats = shards(rows, strategy=strategy, budget=budget, merge=merge)
    return [m for mini in shard.minibatches for m in mini.micro], stats


def plan_table(repeats: int, budget: int = 4096) -> dict[str, float]:
    """Sorted, padded at random, packed: the same sequences, half of each trained."""
    rng = random.Random(1)
    rows = [row(rng, ids(rng, n // 2), ids(rng, n - n // 2), i) for i, n in enumerate(lengths(rng, 96))]
    model = PolicyModel(new_model())
    by_length, stats = micro_batches(rows, budget=budget)
    packed, _ = micro_batches(rows, budget=budget, strategy="packed")
    size = max(1, math.ceil(len(rows) / len(by_length)))
    random_order = [
        micro
        for start in range(0, len(rows), size)
        for micro in micro_batches(rows[start : start + size], budget=10**9)[0]
    ]
    sorted_s, random_s, packed_s = best(
        repeats,
        lambda: gradient_pass(model, by_length),
        lambda: gradient_pass(model, random_order),
        lambda: gradient_pass(model, packed),
    )
    real = stats.real_tokens
    return {
        "real_tokens": real,
        "sorted_tokens_per_s": real / sorted_s,
        "random_tokens_per_s": real / random_s,
        "packed_tokens_per_s": real / packed_s,
        "sorted_to_random": random_s / sorted_s,
    }


def lengths(rng: random.Random, n: int) -> list[int]:
    """Log-uniform between 50 and 800."""
    return [round(math.exp(rng.uniform(math.log(50), math.log(800)))) for _ in range(n)]


def merge_table(repeats: int, turns: int) -> dict[str, float]:
    """Trials of so many turns of 16 sampled tokens on 24 tokens of observation."""
    rng = random.Random(2)
    rows: list[Row] = []
    for trial in range(8):
        prompt = ids(rng, 40)
        for _ in range(turns):
            response = ids(rng, 16)
            rows.append(row(rng, prompt, response, trial))
            prompt = prompt + response + ids(rng, 24)
    model = PolicyModel(new_model())
    merged, stats = micro_batches(rows, budget=8192, merge=True)
    separate, _ = micro_batches(rows, budget=8192)
    merged_s, separate_s = best(
        repeats, lambda: gradient_pass(model, merged), lambda: gradient_pass(model, separate)
    )
    return {
        "turns": turns,
        "merged_tokens": stats.real_tokens,
        "separate_tokens": stats.row_tokens,
        "merged_s": merged_s,
        "separate_s": separate_s,
        "ratio": separate_s / merged_s,
    }


def clone_table(steps: int = 60) -> dict[str, float]:
    """Behaviour cloning of short rows."""
    rng = random.Random(3)
    pairs = [(ids(rng, rng.randint(7, 11)), ids(rng, 1)) for _ in range(20_000)]
    stats = train(new_model(), pairs, SftConfig(steps=steps))
    return {"tokens": stats.tokens, "tokens_per_s": stats.tokens_per_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    quiet(torch.device("cpu"))
    torch.set_num_threads(1)
    tables: dict[str, Any] = {
        "engine": engine_table(options.repeats, distinct=1.0),
        "engine_shared_prompts": engine_table(options.repeats, distinct=0.6),
        "plan": plan_table(options.repeats),
        "merge": [merge_table(options.repeats, turns) for turns in (5, 15)],
        "clone": clone_table(),
    }
    for name, table in tables.items():
        for line in table if isinstance(table, list) else [table]:
            print(f"{name:22s}", "  ".join(f"{k} {v:.4g}" for k, v in line.items()))
    if options.out:
        options.out.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
