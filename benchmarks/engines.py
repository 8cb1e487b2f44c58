"""One engine for a benchmark, as a run would start it."""

from __future__ import annotations

from actors.engine.pool import EnginePool
from actors.engine.protocol import EngineConfig
from agentmem.config import RunConfig


def one_engine(config: RunConfig, model: str) -> EnginePool:
    """A pool of one engine of the policy `agent`, not yet started; nothing is tried again."""
    engine, policy = config.engines["agent"], config.policies["agent"]
    return EnginePool(
        "agent",
        EngineConfig(
            model=model,
            kind=engine.backend,
            dtype=policy.dtype,
            max_model_len=policy.context_length,
            max_num_seqs=engine.max_num_seqs,
        ),
        1,
        restart_budget=0,
        retries=0,
        ray_options={"num_cpus": 1},
    )
