"""One rank of a learner: model, DeepSpeed engine, and what is done with them. A plain class, no Ray.

All ranks call the same methods in the same order (`prepare` and what it needs are rank 0's alone). A step
whose gradient isn't finite is skipped on all ranks and counted; an update without rows is skipped and
counted.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from agentmem.chaos import hold
from agentmem.failures import ConfigError, NumericsError, ResourceError
from agentmem.trajectory import Trial, decode_trial
from agentmem.vision.reader import PictureReader
from learner import checkpoint, export
from learner.batching.choose import choose_strategy, has_flash_attention
from learner.batching.tensors import Shard, shards
from learner.loss import DeviceBatch, logprobs
from learner.method import method_of
from learner.model import PolicyModel, load_base, load_model
from learner.outlet import Outlet
from learner.rendezvous import HashStore, Store, join
from learner.result import Prepared, UpdateResult, result_of
from learner.row import Row
from learner.rows import Values, shape_values, value_rows
from learner.schedule import lr_factor
from learner.settings import RankSettings
from learner.update import UpdateRun
from learner.zero import ZeroEngine, quiet

Groups = Sequence[Sequence[Trial | bytes]]
"""Groups of an update; a trial may still be encoded."""


class LearnerRank:
    """See the module. `store` lets the ranks find each other; None for a single rank."""

    def __init__(
        self,
        settings: RankSettings,
        rank: int = 0,
        world: int = 1,
        store: Store | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.settings, self.rank, self.world = settings, rank, world
        self.device = device = device or device_of(settings)
        quiet(device)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        join(store or HashStore(), rank, world, device, settings.learner.timeout_s)
        torch.manual_seed(settings.seed)
        self.method = method_of(settings, rank)
        self.strategy = choose_strategy(settings.learner.plan, device)
        attention = (
            "flash_attention_2" if self.strategy == "packed" and has_flash_attention(device) else "sdpa"
        )
        self.model: PolicyModel = load_model(settings, device, attention)
        self.engine = ZeroEngine(self.model, settings, world, device)
        self.reference = self._reference(attention)
        self.reader = PictureReader.of(settings.model)
        if self.reader is not None and settings.learner.zero_stage == 3 and world > 1:
            self.model.blank = blank_of(self.reader)
        self.updates_done = 0
        self.bad_in_row = 0
        self.skipped_updates = 0
        self.outlet = Outlet(settings, rank, self.model, self.engine, device)

    # ------------------------------------------------------------------ rank 0: from trials to shards

    def prepare(
        self,
        groups: Groups,
        values: Values | None = None,
        replayed: int = 0,
        examples: Sequence[Row] = (),
    ) -> Prepared:
        """Decode, credit, merge and plan. With PPO, `values` come from `prepare_values` and `values`.

        The last `replayed` groups were trained before. `examples` are trained beside the trials' rows.
        """
        started = time.perf_counter()
        cfg = self.settings.learner
        batch = self.method.rows(decoded(groups), values=values, replayed=replayed, examples=examples)
        parts, plan = shards(
            batch.rows,
            strategy=self.strategy,
            budget=cfg.token_budget,
            minibatches=cfg.minibatches,
            ranks=self.world,
            seed=random.Random(f"{self.settings.seed}:{self.updates_done}").getrandbits(32),
            merge=cfg.merge_turns,
            reader=self.reader,
        )
        seconds = time.perf_counter() - started
        return Prepared(batch.stats, plan, batch.records, parts, seconds, batch.numbers)

    def prepare_values(self, groups: Groups) -> list[Shard]:
        """PPO: shards that only read the value head, one per rank."""
        return self.prepare_rows(value_rows(decoded(groups), self.settings.invalid_penalty)[0])

    def shape_values(self, groups: Groups, read: Iterable[dict[int, float]]) -> Values:
        """PPO: what all ranks' `values` read, in the shape that `prepare` wants."""
        trials = decoded(groups)
        _, places = value_rows(trials, self.settings.invalid_penalty)
        known: dict[int, float] = {}
        for part in read:
            known.update(part)
        return shape_values(trials, places, [known[i] for i in range(len(places))])

    def prepare_rows(self, rows: Sequence[Row]) -> list[Shard]:
        """Shards of rows that are only read, one per rank."""
        budget = self.settings.learner.token_budget
        return shards(rows, strategy=self.strategy, budget=budget, ranks=self.world, reader=self.reader)[0]

    # ------------------------------------------------------------------ all ranks

    @torch.no_grad()
    def values(self, shard: Shard) -> dict[int, float]:
        """PPO: row -> value estimate under the present weights."""
        out: dict[int, float] = {}
        for mini in shard.minibatches:
            for micro in mini.micro:
                batch = DeviceBatch.of(micro, self.device, "token")
                _, values = self.model(
                    batch.ids, batch.index, batch.positions, batch.value_at, **batch.pictures
                )
                out.update(zip(micro.value_row.tolist(), values.tolist(), strict=True))
        return out

    @torch.no_grad()
    def likelihood(self, shard: Shard) -> tuple[float, int]:
        """Sum of the log-probs of the shard's tokens under the present weights, and their number."""
        total, tokens = 0.0, 0
        for mini in shard.minibatches:
            for micro in mini.micro:
                found = self.logprobs(DeviceBatch.of(micro, self.device, "token"), self.model)
                total += float(found.double().sum())
                tokens += len(micro.targets)
        return total, tokens

    def update(self, shard: Shard) -> tuple[bool, dict[str, float]]:
        """Train on this rank's shard: whether any step was applied, and the metrics (the same on every rank).

        Raises NumericsError after `max_bad_updates` updates in a row whose gradients weren't finite.
        """
        cfg = self.settings.learner
        started, cpu = time.perf_counter(), time.process_time()
        lr = cfg.lr * lr_factor(
            self.updates_done,
            updates=cfg.updates,
            warmup=cfg.warmup_updates,
            schedule=cfg.schedule,
            min_ratio=cfg.min_lr_ratio,
        )
        self.updates_done += 1
        if not shard.minibatches:
            self.skipped_updates += 1
            return False, {"empty": 1.0, "lr": lr, "tokens_trained": 0.0, "steps": 0.0, "skipped_steps": 0.0}
        run = UpdateRun(self, shard)
        run.before()
        hold("learner.update")
        for _ in range(cfg.epochs):
            for step in range(len(shard.minibatches)):
                run.step(step, lr)
        metrics = run.metrics(lr)
        metrics["update_s"] = time.perf_counter() - started
        metrics["cpu_s"] = time.process_time() - cpu
        applied = run.applied > 0
        self.bad_in_row = 0 if applied else self.bad_in_row + 1
        if self.bad_in_row >= cfg.max_bad_updates:
            raise NumericsError(
                f"policy '{self.settings.policy}': gradients of {self.bad_in_row} updates in a row weren't "
                f"finite (learner.max_bad_updates is {cfg.max_bad_updates})"
            )
        return applied, metrics

    def update_groups(
        self, groups: Groups, version: int, replayed: int = 0, examples: Sequence[Row] = ()
    ) -> UpdateResult:
        """A single rank's whole update. Raises ValueError if there are more ranks."""
        if self.world != 1:
            raise ValueError(f"update_groups is for a single rank, there are {self.world}")
        values = None
        if self.settings.has_values:
            values = self.shape_values(groups, [self.values(s) for s in self.prepare_values(groups)])
        prepared = self.prepare(groups, values, replayed, examples)
        applied, metrics = self.update(prepared.shards[0])
        return result_of(version, applied, metrics, prepared)

    def save_checkpoint(self, root: str, step: int, extra: dict[str, Any]) -> str:
        """Write a complete checkpoint under `root` and remove old ones; its folder. All ranks take part."""
        folder = checkpoint.folder_of(Path(root), step)
        if self.rank == 0:
            checkpoint.begin(Path(root), step)
        self._barrier()
        self.engine.save(folder)
        torch.save(
            {
                "updates_done": self.updates_done,
                "bad_in_row": self.bad_in_row,
                "skipped_updates": self.skipped_updates,
                **self.method.state(),
                "torch": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
            },
            folder / f"rank-{self.rank:05d}.pt",
        )
        self._barrier()
        hold("learner.checkpoint")
        if self.rank == 0:
            checkpoint.commit(folder, step, {"world": self.world, "caller": extra})
            checkpoint.prune(Path(root), self.settings.learner.keep_checkpoints)
        return str(folder)

    def load_checkpoint(self, folder: str) -> dict[str, Any]:
        """Go on from a complete checkpoint: weights, optimiser, RNG, schedule. Returns `extra`."""
        found = checkpoint.read(Path(folder))
        if found.extra["world"] != self.world:
            raise ConfigError(
                f"checkpoint {folder} was written by {found.extra['world']} ranks: "
                f"learner.ranks is {self.world}, must be the same"
            )
        self.engine.load(found.path)
        own = torch.load(found.path / f"rank-{self.rank:05d}.pt", weights_only=True)
        self.updates_done, self.bad_in_row = own["updates_done"], own["bad_in_row"]
        self.skipped_updates = own["skipped_updates"]
        self.method.restore(own)
        torch.set_rng_state(own["torch"])
        if own["cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(own["cuda"], self.device)
        extra: dict[str, Any] = found.extra["caller"]
        return extra

    def final_model(self, folder: str) -> None:
        """The weights as a model folder in Hugging Face format (LoRA merged), written by rank 0."""
        tensors = export.gather(self.engine, export.units(self.model), keep=self.rank == 0)
        if self.rank == 0:
            export.write_model(self.model, tensors, self.settings.model, Path(folder))
        self._barrier()

    def close(self) -> None:
        """Free the engine. The rank can't be used afterwards."""
        self.engine.close()

    # ------------------------------------------------------------------ inside

    @torch.no_grad()
    def logprobs(self, batch: DeviceBatch, model: Any) -> Tensor:
        """Log-probs [N] of a micro-batch's targets under a model's present weights."""
        logits, _ = model(batch.ids, batch.index, batch.positions, batch.value_at[:0], **batch.pictures)
        return logprobs(logits, batch, entropy_grad=False)[0]

    def reference_logprobs(self, batch: DeviceBatch) -> Tensor:
        """The same under the policy before any update."""
        if self.reference is not None:
            return self.logprobs(batch, self.reference)
        with contextlib.ExitStack() as without:
            without.enter_context(self.model.model.disable_adapter())
            if self.model.rows is not None:
                without.enter_context(self.model.rows.absent())
            return self.logprobs(batch, self.model)

    def _reference(self, attention: str) -> PolicyModel | None:
        """A frozen copy of the start, if a KL term needs it; with LoRA, the model without adapter."""
        if self.method.kl_coef == 0 or self.settings.lora is not None:
            return None
        frozen = PolicyModel(
            load_base(self.settings.model, self.settings.dtype, self.device, attention)
        ).requires_grad_(False)
        return frozen.eval()

    def _barrier(self) -> None:
        if self.world > 1:
            dist.barrier()


def decoded(groups: Groups) -> list[list[Trial]]:
    """Trials as they are, bytes decoded."""
    return [[decode_trial(t) if isinstance(t, bytes) else t for t in group] for group in groups]


def blank_of(reader: PictureReader) -> tuple[Tensor, Tensor]:
    """The smallest picture that the model takes, black: patches and grid."""
    side = reader.merge
    width = reader.read(reader.probe).patches.shape[1]
    return torch.zeros(side * side, width), torch.tensor([[1, side, side]])


def device_of(settings: RankSettings) -> torch.device:
    """The first GPU that this process sees if ranks have GPUs, else the CPU."""
    if settings.learner.gpus_per_rank == 0:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ResourceError(
            f"learner.gpus_per_rank is {settings.learner.gpus_per_rank:g}, but PyTorch sees no GPU here"
        )
    return torch.device("cuda", 0)
