"""A trained memory policy for any program: a task and a first observation in, an advice out. No Ray.

    with Advisor.load("runs/…/final_model", env="doors", options={…}) as advisor:
        said = advisor.advise(task, observation)
        if said.decision is Decision.GENERATE: print(said.text)

One engine runs in this process, on threads of its own; calls from several threads are batched. `advise` never
takes longer than `timeout_s` (a late answer abstains, and says so). τ, the hint's length and the timeout may
be given with each question; so may a picture, to a policy whose model sees.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, TypeAlias, TypedDict, TypeVar, Unpack

from actors.engine.factory import build_engine
from actors.engine.protocol import EngineConfig
from actors.engine.step_engine import StepEngine
from actors.rollout.advising import AdviceRequest, Advising, AdvisingStats
from agentmem.chat import ChatCodec, DecisionTokens
from agentmem.failures import ConfigError
from agentmem.memory.advisor import Advice, advice_of
from agentmem.sampling import Sample, SampleRequest, Sampling
from agentmem.trajectory import Split
from agentmem.vision.picture import Picture, PictureLike, picture_of
from agentmem.vision.reader import PictureReader
from envs.base import PromptStyle
from envs.prompt_kind import advises_in_messages
from envs.registry import style as style_of

T = TypeVar("T")
Question: TypeAlias = "tuple[str, str] | tuple[str, str, PictureLike | None]"


class Limits(TypedDict, total=False):
    """What one question may have of its own; None, or not given: as the advisor was made."""

    domain: str
    """Which environment it is about, for a policy that advises several."""
    threshold: float | None
    """τ: a hint if its logit is larger by more than this."""
    max_tokens: int | None
    timeout_s: float | None


class Advisor:
    """See the module's docstring. Close it, or use it as a context."""

    def __init__(
        self,
        config: EngineConfig,
        style: PromptStyle,
        *,
        hint: Sampling,
        threshold: float = 0.0,
        timeout_s: float = 30.0,
        template_options: Mapping[str, Any] | None = None,
        version: int = 0,
    ) -> None:
        """Load the model. `version`: that of its weights, for the answers. Raises ModelError for one without
        decision tokens, or that can't serve."""
        tokens = DecisionTokens.of(config.model)
        codec = ChatCodec(config.model, template_options=template_options or {})
        codec.check_servable(messages=advises_in_messages(style))
        self._domains = set(style.each())
        reader = PictureReader.of(config.model)
        self._sees = reader is not None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="advisor", daemon=True)
        self._thread.start()
        self._numbers = itertools.count()
        self._longest = hint.max_tokens
        self._engine = build_engine(config, name="advisor", initial_version=version)
        try:
            self._run(self._engine.start())
        except BaseException:
            self._end_loop()
            raise
        self._advising = Advising(
            "advisor",
            _InProcess(self._engine),
            codec,
            tokens,
            style,
            {Split.EVAL: hint},
            context_length=config.max_model_len,
            threshold=threshold,
            timeout_s=timeout_s,
            reader=None if reader is None else reader.check(),
        )

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        env: str,
        options: Mapping[str, Any] | None = None,
        backend: str = "vllm",
        context_length: int = 2048,
        max_tokens: int = 256,
        temperature: float = 0.7,
        threshold: float = 0.0,
        timeout_s: float = 30.0,
    ) -> Self:
        """From a model's directory, with the prompts of an environment."""
        engine = EngineConfig(model=str(model), kind=backend, max_model_len=context_length)
        hint = Sampling(temperature=temperature, max_tokens=max_tokens)
        style = style_of(env, options or {})
        return cls(engine, style, hint=hint, threshold=threshold, timeout_s=timeout_s)

    @property
    def longest(self) -> int:
        """Most tokens of a hint."""
        return self._longest

    @property
    def version(self) -> int:
        """Of the weights."""
        return self._engine.version

    def check_alive(self) -> None:
        """Raises EngineError if nothing will be answered any more."""
        self._engine.check_alive()

    def advise(
        self, task: str, observation: str, image: PictureLike | None = None, **limits: Unpack[Limits]
    ) -> Advice:
        """One advice. `image`: an image of Pillow, an image file's bytes, or its path.

        Raises ConfigError for an unknown domain, limits out of range, and an image where the policy reads
        text alone; PictureError for one that can't be used.
        """
        return self.submit(task, observation, image, **limits).result()

    def submit(
        self, task: str, observation: str, image: PictureLike | None = None, **limits: Unpack[Limits]
    ) -> Future[Advice]:
        """`advise` without waiting, from any thread: for other event loops (`asyncio.wrap_future`)."""
        asked = self.advise_async(task, observation, image, **limits)
        return asyncio.run_coroutine_threadsafe(asked, self._loop)

    def advise_many(self, questions: Sequence[Question], *, domain: str = "") -> list[Advice]:
        """Advice on several (task, observation) or (task, observation, image) of one domain, as one batch."""
        return self._run(self._many(questions, domain))

    async def advise_async(
        self,
        task: str,
        observation: str,
        image: PictureLike | None = None,
        **limits: Unpack[Limits],
    ) -> Advice:
        """`advise`, in the advisor's own event loop."""
        self._check_limits(limits)
        domain = limits.get("domain", "")
        if domain not in self._domains:
            found = repr(domain) if domain else "missing"
            known = ", ".join(sorted(self._domains))
            allowed = f"must be one of {known}" if self._domains != {""} else "it advises on one environment"
            raise ConfigError(f"domain is {found}: {allowed}")
        if image is not None and not self._sees:
            raise ConfigError("image: this memory policy reads text alone; give the observation in words")
        began = time.monotonic()
        request = AdviceRequest(
            id=str(next(self._numbers)),
            task=task,
            observation=observation,
            image=None if image is None else picture_of(image),
            **limits,
        )
        advised = await self._advising.advise(request)
        return advice_of(advised.turn, time.monotonic() - began, advised.gap)

    def stats(self) -> AdvisingStats:
        """Counters since the start."""
        return self._advising.stats()

    def close(self) -> None:
        """End the engine. Idempotent."""
        if self._loop.is_running():
            self._run(self._engine.close())
            self._end_loop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_limits(self, limits: Limits) -> None:
        threshold, max_tokens = limits.get("threshold"), limits.get("max_tokens")
        timeout_s = limits.get("timeout_s")
        if threshold is not None and math.isnan(threshold):
            raise ConfigError("threshold is nan: must be a number")
        if max_tokens is not None and not 1 <= max_tokens <= self._longest:
            raise ConfigError(f"max_tokens is {max_tokens}: must be 1 to {self._longest}")
        if timeout_s is not None and not timeout_s > 0:
            raise ConfigError(f"timeout_s is {timeout_s:g}: must be above 0")

    async def _many(self, questions: Sequence[Question], domain: str) -> list[Advice]:
        asked = (self.advise_async(*question, domain=domain) for question in questions)
        return await asyncio.gather(*asked)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _InProcess:
    """An engine of this process as a `Sampler`."""

    def __init__(self, engine: StepEngine) -> None:
        self._engine, self._numbers = engine, itertools.count()

    async def sample(
        self, prompt_ids: tuple[int, ...], sampling: Sampling, image: Picture | None = None
    ) -> Sample:
        name = str(next(self._numbers))
        request = SampleRequest(id=name, prompt_ids=prompt_ids, sampling=sampling, image=image)
        return await self._engine.sample(request)
