"""The only file that knows DeepSpeed: a ZeRO engine (stage 0-3) around a module and a torch AdamW.

What it hides: micro-batches of any number per step (the accumulation boundary is set by hand), losses that
are already shares of the global mean (DeepSpeed averages gradients over ranks, so a loss is multiplied by
their number), skipping a step whose gradient isn't finite on all ranks alike, gathering partitioned
parameters.

Nothing is compiled at run time: the optimiser is torch's, and DeepSpeed's own CPU ops are kept from loading.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from agentmem.failures import ConfigError

if TYPE_CHECKING:
    from learner.settings import RankSettings


def quiet(device: torch.device) -> None:
    """Before anything imports DeepSpeed (transformers may): tell it the device, and to log errors only."""
    os.environ.setdefault("DS_ACCELERATOR", device.type)
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed\..*")


def _deepspeed(device: torch.device) -> Any:
    """Import DeepSpeed, with nothing to compile."""
    quiet(device)
    import deepspeed

    quiet(device)
    # On CPUs its communication layer would compile a shared-memory extension at start; gloo does without.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


class ZeroEngine:
    """One rank's engine. The process group must exist. All ranks call the same methods alike."""

    def __init__(self, model: nn.Module, settings: RankSettings, world: int, device: torch.device) -> None:
        self.world, self.stage = world, settings.learner.zero_stage
        self._clip = settings.learner.grad_clip
        half = settings.dtype == "bfloat16"
        # Half precision needs float32 master weights, which DeepSpeed keeps from stage 1 on.
        self._ds_stage = max(self.stage, 1) if half else self.stage
        deepspeed = _deepspeed(device)
        self._gather = deepspeed.zero.GatheredParameters
        on_gpu = device.type == "cuda"
        # A launcher would set it. Each rank sees its own device only, or says which by the device's index.
        os.environ["LOCAL_RANK"] = str(device.index or 0)
        zero: dict[str, Any] = {
            "stage": self._ds_stage,
            "overlap_comm": on_gpu,
            "contiguous_gradients": True,
            "reduce_scatter": on_gpu,
        }
        if self._ds_stage == 3:
            zero["stage3_gather_16bit_weights_on_model_save"] = False
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": 1,
            "train_batch_size": world,
            "zero_optimization": zero,
            "bf16": {"enabled": half, **({"check_grad_overflow": True} if half else {})},
            "gradient_clipping": self._clip if self._ds_stage else 0.0,
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "steps_per_print": 1_000_000_000,
            "wall_clock_breakdown": False,
        }
        optimiser = torch.optim.AdamW(
            _groups(model, settings.learner.weight_decay),
            lr=settings.learner.lr,
            betas=settings.learner.betas,
            fused=True,
        )
        deepspeed.init_distributed(
            dist_backend="nccl" if on_gpu else "gloo", auto_mpi_discovery=False, verbose=False
        )
        self.engine: Any
        self.engine, *_ = deepspeed.initialize(
            model=model, optimizer=optimiser, config=config, dist_init_required=False
        )
        if self._ds_stage == 0 and world == 1:
            self.engine.enable_backward_allreduce = False  # nothing to reduce: skip copying all gradients
        self.parameters = [p for p in model.parameters() if p.requires_grad]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Forward pass whose graph `backward` can walk."""
        return self.engine(*args, **kwargs)

    def backward(self, loss: Tensor, *, last: bool) -> None:
        """Accumulate the gradient of a share of the loss; `last` before a step."""
        self.engine.set_gradient_accumulation_boundary(last)
        self.engine.backward(loss * self.world, scale_wrt_gas=False)

    def step(self, lr: float) -> tuple[bool, float]:
        """Clip and step unless the gradient isn't finite: (whether stepped, norm before clipping)."""
        for group in self.engine.optimizer.param_groups:
            group["lr"] = lr
        if self._ds_stage == 0:
            # Gradients are reduced, so every rank finds the same norm.
            norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self._clip, foreach=True))
            if not math.isfinite(norm):
                self.engine.zero_grad()
                return False, norm
            self.engine.step()
            return True, norm
        self.engine.step()
        if self.engine.optimizer.overflow:
            return False, math.inf
        return True, float(self.engine.get_global_grad_norm())

    @contextlib.contextmanager
    def gathered(self, parameters: Sequence[nn.Parameter]) -> Iterator[None]:
        """While inside, these parameters are whole on every rank (read only)."""
        if self._ds_stage < 3:
            yield
            return
        with self._gather(list(parameters), modifier_rank=None):
            yield

    def save(self, folder: Path) -> None:
        """Weights and optimiser of all ranks into a folder that all ranks see."""
        self.engine.save_checkpoint(str(folder), tag="zero", save_latest=False)

    def load(self, folder: Path) -> None:
        """Restore what `save` wrote. Raises ConfigError if it was written by another number of ranks."""
        try:
            path, _ = self.engine.load_checkpoint(
                str(folder), tag="zero", load_lr_scheduler_states=False, load_module_strict=True
            )
        except Exception as error:
            raise ConfigError(
                f"checkpoint {folder} can't be loaded by {self.world} ranks: {error}"
            ) from error
        if path is None:
            raise ConfigError(f"checkpoint {folder} holds no state for this rank (ranks: {self.world})")

    def close(self) -> None:
        """Free what the engine holds. The process group stays."""
        self.engine.destroy()


def real_size(parameter: nn.Parameter) -> int:
    """Elements of a parameter, also where ZeRO-3 has partitioned it and it looks empty."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; norms and biases (one dimension) don't."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if weight_decay == 0.0:
        return [{"params": trained, "weight_decay": 0.0}]
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return [g for g in groups if g["params"]]
