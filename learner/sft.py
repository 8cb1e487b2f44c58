"""Behaviour cloning: maximum likelihood of given responses on given prompts, in one process.

It gives a tiny model its format before reinforcement learning (small-models setting) and distils a bank of
experience. Loss: cross-entropy of the response tokens alone, mean over the response tokens of a step. A step
takes `batch_rows` rows of similar length; a step longer than `token_budget` padded tokens is cut into
micro-batches with the same gradient. The order of rows depends on `seed` alone.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
import torch.nn.functional as F

from agentmem.failures import ConfigError, NumericsError
from agentmem.vision.inputs import padded
from agentmem.vision.sight import embedded, on_device
from learner.forward import logits_at, output_layer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from agentmem.vision.picture import Picture
    from agentmem.vision.reader import PictureReader

SftRow = tuple[Sequence[int], Sequence[int]]
"""Prompt ids, response ids; both non-empty."""

BUCKET_STEPS = 16
"""Rows of so many steps are sorted together: enough for nearly equal lengths, few enough to stay random."""


@dataclass(frozen=True, slots=True)
class SftConfig:
    """Defaults: the small-model setting. `epochs` counts only where `steps` is None."""

    steps: int | None = 750
    epochs: int = 1
    batch_rows: int = 256
    lr: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.999)
    warmup_steps: int = 50
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    min_lr_ratio: float = 0.1
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    token_budget: int = 16384
    seed: int = 0
    report_every: int = 10
    """Steps between calls of `on_progress`; the last step is always reported."""


@dataclass(frozen=True, slots=True)
class SftProgress:
    """After a step: losses in nats per response token, `tokens` real tokens (prompts too) trained so far."""

    step: int
    steps: int
    loss: float
    lr: float
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SftStats:
    """Of the whole training. `loss`: mean of the last tenth of the steps, in nats per response token."""

    steps: int
    rows: int
    tokens: int
    response_tokens: int
    seconds: float
    first_loss: float
    loss: float

    @property
    def tokens_per_s(self) -> float:
        """Real tokens (prompts and responses) a second."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


def train(
    model: PreTrainedModel,
    rows: Sequence[SftRow],
    cfg: SftConfig | None = None,
    on_progress: Callable[[SftProgress], None] | None = None,
    *,
    pictures: Sequence[Picture | None] = (),
    reader: PictureReader | None = None,
) -> SftStats:
    """Train `model` in place on `rows`. Raises ConfigError for rows it can't use, NumericsError for a bad
    loss. `pictures`: those in the rows' prompts, for a model that sees and its `reader`.
    """
    cfg = cfg or SftConfig()
    if not rows:
        raise ConfigError("behaviour cloning was given no rows")
    limit = getattr(model.config, "max_position_embeddings", None)
    for i, (prompt, response) in enumerate(rows):
        if not prompt or not response:
            raise ConfigError(f"row {i}: a prompt of {len(prompt)} and a response of {len(response)} tokens")
        if limit is not None and len(prompt) + len(response) > limit:
            raise ConfigError(f"row {i} has {len(prompt) + len(response)} tokens: the model takes {limit}")
    steps = cfg.steps if cfg.steps is not None else cfg.epochs * math.ceil(len(rows) / cfg.batch_rows)
    optimiser = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad],
        lr=cfg.lr,
        betas=cfg.betas,
        weight_decay=cfg.weight_decay,
        foreach=True,
    )
    was_training = model.training
    model.train()
    layer, device = output_layer(model), next(model.parameters()).device
    started, tokens, response_tokens, trained_rows = time.perf_counter(), 0, 0, 0
    losses: list[float] = []
    for step, batch in zip(range(1, steps + 1), _batches(rows, cfg), strict=False):
        lr = cfg.lr * _factor(step, steps, cfg)
        for group in optimiser.param_groups:
            group["lr"] = lr
        wanted = sum(len(rows[i][1]) for i in batch)
        loss = 0.0
        for part in _micro_batches(rows, batch, cfg.token_budget):
            ids, index, targets = _tensors([rows[i] for i in part])
            ids, where, embeddings = ids.to(device), None, None
            if reader is not None and pictures:
                sights = [((*rows[i][0], *rows[i][1])[:-1], pictures[i]) for i in part]
                positions, seen = padded(reader, sights, ids.shape[1])
                if seen is not None:
                    where = torch.tensor(positions, device=device)
                    embeddings = embedded(model, ids, **on_device(seen, device))
            logits, _ = logits_at(model, layer, ids, index.to(device), where, embeddings=embeddings)
            part_loss = F.cross_entropy(logits.float(), targets.to(device), reduction="sum") / wanted
            torch.autograd.backward(part_loss)
            loss += part_loss.item()
        if not math.isfinite(loss):
            raise NumericsError(f"behaviour cloning: loss is {loss} at step {step}")
        torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.grad_clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        tokens += sum(len(rows[i][0]) + len(rows[i][1]) for i in batch)
        response_tokens += wanted
        trained_rows += len(batch)
        losses.append(loss)
        if on_progress and (step % cfg.report_every == 0 or step == steps):
            on_progress(SftProgress(step, steps, loss, lr, tokens, time.perf_counter() - started))
    model.train(was_training)
    tail = losses[-max(1, len(losses) // 10) :]
    return SftStats(
        steps=steps,
        rows=trained_rows,
        tokens=tokens,
        response_tokens=response_tokens,
        seconds=time.perf_counter() - started,
        first_loss=losses[0],
        loss=sum(tail) / len(tail),
    )


def _factor(step: int, steps: int, cfg: SftConfig) -> float:
    """Learning rate over `lr`: linear warm-up, then the schedule down to `min_lr_ratio`. `step` counts from
    1.
    """
    warmup = min(cfg.warmup_steps, steps // 2)
    if step <= warmup:
        return step / warmup
    done = (step - warmup) / max(1, steps - warmup)
    if cfg.schedule == "linear":
        return 1.0 - (1.0 - cfg.min_lr_ratio) * done
    if cfg.schedule == "cosine":
        return cfg.min_lr_ratio + (1.0 - cfg.min_lr_ratio) * 0.5 * (1.0 + math.cos(math.pi * done))
    return 1.0


def _batches(rows: Sequence[SftRow], cfg: SftConfig) -> Iterator[list[int]]:
    """Row indices of one step after another, for ever: every pass takes each row once, in a new order."""
    rng = random.Random(cfg.seed)
    order = list(range(len(rows)))
    block = cfg.batch_rows * BUCKET_STEPS
    while True:
        rng.shuffle(order)
        batches: list[list[int]] = []
        for start in range(0, len(order), block):
            part = sorted(order[start : start + block], key=lambda i: len(rows[i][0]) + len(rows[i][1]))
            batches.extend(part[s : s + cfg.batch_rows] for s in range(0, len(part), cfg.batch_rows))
        rng.shuffle(batches)
        yield from batches


def _micro_batches(rows: Sequence[SftRow], batch: list[int], budget: int) -> Iterator[list[int]]:
    """Cut a step's rows, sorted by length, where rows x longest would pass the budget of padded tokens."""
    part: list[int] = []
    for i in sorted(batch, key=lambda i: len(rows[i][0]) + len(rows[i][1])):
        if part and (len(part) + 1) * (len(rows[i][0]) + len(rows[i][1])) > budget:
            yield part
            part = []
        part.append(i)
    yield part


def _tensors(rows: Sequence[SftRow]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids [B, L] padded on the right with 0, flat positions [N] that predict response tokens, targets [N]."""
    longest = max(len(p) + len(r) for p, r in rows) - 1  # the last token predicts nothing
    ids: list[list[int]] = []
    index: list[int] = []
    targets: list[int] = []
    for b, (prompt, response) in enumerate(rows):
        whole = [*prompt, *response][:-1]
        ids.append(whole + [0] * (longest - len(whole)))
        first = b * longest + len(prompt) - 1
        index.extend(range(first, first + len(response)))
        targets.extend(response)
    return torch.tensor(ids), torch.tensor(index), torch.tensor(targets)
