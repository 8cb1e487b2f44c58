"""How an experience bank is written: by which model, from what, how long."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from agentmem.config.endpoint import EndpointConfig
from agentmem.config.schema import EngineConfig
from agentmem.config.section import Count, Positive, Section


class BankConfig(Section):
    """Settings of `agentmem bank build`."""

    model: str
    """The writer: the endpoint's name for it; or, for an engine here, `smollm2`, a Hugging Face name or a
    directory."""
    endpoint: EndpointConfig | None = None
    """Where the writer is; null: an engine in this process."""
    context_length: Count = 8192
    """Prompt and answer together, in tokens (guessed for an endpoint). Traces are shortened to it."""
    kind: Literal["auto", "success", "failure", "pair", "several"] = "auto"
    """What a hint is written from: one successful trace, one failed one, one of each, or several. `auto`: of
    each task a pair where it has one, else several, else the one that there is."""
    per_task: Count = 1
    """Most records of a task from one build (`several` gives one)."""
    traces: Annotated[int, Field(ge=2)] = 4
    """Most traces that `several` reads."""
    zoom: bool = True
    """First ask for the decisive steps, and show those in full when the hint is asked for."""
    hint_tokens: Count = 256
    """Longest hint, in the writer's tokens. A longer one is cut at its last full sentence."""
    zoom_tokens: Count = 512
    """Longest answer of the zoom pass."""
    temperature: Positive = 0.2
    env_options: dict[str, Any] = {}
    """The environment's options, for trials of a file: tasks without a text of their own are described by the
    environment's rules. A run knows its own."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of an engine here."""
    template_options: dict[str, Any] = {}
    """The same: given to the model's chat template."""
    engine: EngineConfig = EngineConfig()
    """The same: back end, sequences at once, deadlines."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name in ("hint_tokens", "zoom_tokens"):
            if getattr(self, name) >= self.context_length:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: must be below context_length ({self.context_length})"
                )
        if self.engine.replicas != 1:
            raise ValueError(f"engine.replicas is {self.engine.replicas}: a bank's writer has one engine")
        if self.engine.gpus:
            raise ValueError(
                f"engine.gpus is {self.engine.gpus:g}: a writer here takes the GPUs that this process sees "
                "(engine.tensor_parallel of them)"
            )
        return self
