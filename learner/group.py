"""The learner group as the driver sees it: 1..n rank processes behind one handle.

Rank 0 decodes, credits and plans; the other ranks get their shards through Ray's object store. Every phase
has the deadline `learner.timeout_s`. A rank that dies is named in an InfrastructureError; the group can't be
used afterwards and should be closed and started anew from a checkpoint. Calls block; one call at a time.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentmem.failures import AgentMemError, InfrastructureError
from agentmem.trajectory import Trial, encode_trial
from agentmem.weights import WeightUpdate
from agentmem.weights.collective import Wire
from learner import checkpoint
from learner.result import UpdateResult, result_of
from learner.row import Row
from learner.settings import RankSettings

GRACE_S = 5.0
"""After one rank's error: how long to wait for the others' outcomes, so that a death is told from its echo.
"""


class LearnerError(InfrastructureError):
    """A rank died, or a phase missed its deadline."""

    def __init__(self, policy: str, phase: str, ranks: Sequence[int], reason: str) -> None:
        named = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {list(ranks)}"
        super().__init__(f"learner of policy '{policy}': {named}, phase {phase}: {reason}")
        self.policy, self.phase, self.ranks, self.reason = policy, phase, list(ranks), reason

    def __reduce__(self) -> tuple[type[LearnerError], tuple[str, str, list[int], str]]:
        return (type(self), (self.policy, self.phase, self.ranks, self.reason))


class LearnerGroup:
    """Starts the ranks in its constructor; Ray must be initialised. Use `close`, or `with`."""

    def __init__(
        self,
        settings: RankSettings,
        *,
        cpus_per_rank: float = 1,
        threads: int = 1,
        placement_group: Any = None,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        """`threads`: of PyTorch, in each rank. `placement_group`: bundle i is rank i's. `resources`: custom
        ones of Ray that each rank asks for."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        from learner.actor import RankActor

        self.settings = settings
        self.world = settings.learner.ranks
        self.timeout_s = settings.learner.timeout_s
        """Deadline of every phase."""
        self.actors: list[Any] = []
        # Pings are answered on a thread of their own while a rank computes.
        remote = ray.remote(concurrency_groups={"health": 1})(RankActor)
        for rank in range(self.world):
            options: dict[str, Any] = {
                "num_cpus": cpus_per_rank,
                "num_gpus": settings.learner.gpus_per_rank,
                "resources": dict(resources or {}),
                "max_restarts": 0,
                "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(threads)}},
            }
            if placement_group is not None:
                options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                    placement_group=placement_group, placement_group_bundle_index=rank
                )
            self.actors.append(remote.options(**options).remote(settings, rank, self.world, threads))
        try:
            (host, port), *_ = self._wait("rendezvous", {0: self.actors[0].open.remote()})
            self._all("start", "start", host, port)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> LearnerGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(
        self,
        groups: Sequence[Sequence[Trial | bytes]],
        version: int,
        replayed: Sequence[Sequence[Trial | bytes]] = (),
        examples: Sequence[Row] = (),
    ) -> UpdateResult:
        """Train on complete groups (trials, or as `encode_trial` gives them) with the weights of `version`.

        `replayed` are groups that were trained before: their ratios are against the engine's log-probs.
        `examples` are rows of `learner.stage1`, for a memory policy: beside groups or, without any, alone.

        Raises NumericsError after too many updates without a finite gradient, LearnerError if a rank is lost.
        """
        payload = [
            [t if isinstance(t, bytes) else encode_trial(t) for t in group] for group in (*groups, *replayed)
        ]
        if self.world == 1:
            result: UpdateResult = self._rank0(
                "update", "update_groups", payload, version, len(replayed), examples
            )
            return result
        values = None
        if self.settings.has_values:
            parts = self._split("values", "prepare_values", payload)
            read = self._wait(
                "values",
                {r: a.values.remote(p) for r, (a, p) in enumerate(zip(self.actors, parts, strict=True))},
            )
            values = self._rank0("values", "shape_values", payload, read)
        parts = self._split("prepare", "prepare_shards", payload, values, len(replayed), examples)
        prepared, shards = parts[0], parts[1:]
        told = self._wait(
            "update",
            {r: a.update.remote(s) for r, (a, s) in enumerate(zip(self.actors, shards, strict=True))},
        )
        applied, metrics = told[0]
        (rows,) = self._wait("prepare", {0: prepared})
        return result_of(version, applied, metrics, rows)

    def example_loss(self, rows: Sequence[Row]) -> float:
        """Mean of -log π over the trained tokens of rows, in nats, under the present weights."""
        parts = self._split("likelihood", "prepare_rows", list(rows))
        read: list[tuple[float, int]] = self._wait(
            "likelihood",
            {r: a.likelihood.remote(p) for r, (a, p) in enumerate(zip(self.actors, parts, strict=True))},
        )
        tokens = sum(n for _, n in read)
        if tokens == 0:
            raise ValueError(f"{len(rows)} rows have no trained token")
        return -math.fsum(total for total, _ in read) / tokens

    def publish(self, version: int, engines: Sequence[str] = ()) -> WeightUpdate:
        """Write the weights for `engines` to fetch; returns the manifest to announce to them."""
        manifest, *_ = self._all("publish", "publish", version, list(engines))
        return self._manifest(manifest)

    def manifest(self, version: int, transport: str, location: str) -> WeightUpdate:
        """For NCCL and IPC: what to announce to the engines before `send`."""
        manifest, *_ = self._all("manifest", "manifest", version, transport, location)
        return self._manifest(manifest)

    def send(self, update: WeightUpdate, open_wire: Callable[[WeightUpdate], Wire]) -> None:
        """For NCCL and IPC: send the tensors while the engines receive. `open_wire` runs on rank 0."""
        self._all("send", "send", update, open_wire)

    def acknowledge(self, version: int, engine: str) -> None:
        """An engine serves `version`: older snapshots needn't be kept for it."""
        self._rank0("acknowledge", "acknowledge", version, engine)

    def save_checkpoint(self, root: str | Path, step: int, extra: dict[str, Any] | None = None) -> Path:
        """Save everything (and `extra`, JSON) under `root`, keep the newest few; returns the folder."""
        folder, *_ = self._all("save", "save_checkpoint", str(root), step, extra or {})
        return Path(folder)

    def load_checkpoint(self, root: str | Path) -> checkpoint.Checkpoint | None:
        """Go on from the newest complete checkpoint under `root` (its `extra` is the caller's); None without
        one.
        """
        found = checkpoint.newest(Path(root))
        if found is None:
            return None
        extra, *_ = self._all("load", "load_checkpoint", str(found.path))
        return dataclasses.replace(found, extra=extra)

    def final_model(self, folder: str | Path) -> Path:
        """Write the weights as a model folder in Hugging Face format."""
        self._all("final model", "final_model", str(folder))
        return Path(folder)

    def pids(self) -> list[int]:
        """Process ids of the ranks."""
        return [int(p) for p in self._all("pids", "pid")]

    def pings(self) -> dict[int, Any]:
        """Rank -> reference that is answered while the rank's process runs, also during a call."""
        return {
            rank: actor.ping.options(concurrency_group="health").remote()
            for rank, actor in enumerate(self.actors)
        }

    def close(self) -> None:
        """End the ranks' processes. A call under way in another thread ends with a LearnerError. May be
        called twice."""
        import ray

        for actor in self.actors:
            ray.kill(actor, no_restart=True)
        self.actors = []

    # ------------------------------------------------------------------ inside

    def _all(self, phase: str, method: str, *args: Any) -> list[Any]:
        """Call a method on every rank; the answers in the order of ranks."""
        self._check_open()
        return self._wait(phase, {r: getattr(a, method).remote(*args) for r, a in enumerate(self.actors)})

    def _rank0(self, phase: str, method: str, *args: Any) -> Any:
        self._check_open()
        return self._wait(phase, {0: getattr(self.actors[0], method).remote(*args)})[0]

    def _split(self, phase: str, method: str, *args: Any) -> list[Any]:
        """Call a method of rank 0 that returns a part for each rank; the parts stay in the object store."""
        self._check_open()
        count = self.world + (method == "prepare_shards")
        refs = getattr(self.actors[0], method).options(num_returns=count).remote(*args)
        return list(refs) if count > 1 else [refs]

    def _wait(self, phase: str, calls: dict[int, Any]) -> list[Any]:
        """Answers of calls {rank: reference}, in the order of ranks, within the deadline."""
        import ray

        deadline = time.monotonic() + self.timeout_s
        pending = {ref: rank for rank, ref in calls.items()}
        answers: dict[int, Any] = {}
        failed: dict[int, BaseException] = {}
        while pending:
            left = max(0.0, deadline - time.monotonic())
            done, _ = ray.wait(list(pending), num_returns=1, timeout=left)
            if not done:
                break
            rank = pending.pop(done[0])
            try:
                answers[rank] = ray.get(done[0])
            except Exception as error:
                failed[rank] = error
                # An actor's death breaks its peers' collectives: give it a moment to be known as the cause.
                deadline = min(deadline, time.monotonic() + GRACE_S)
        if failed:
            raise error_of(self.settings.policy, phase, failed)
        if pending:
            raise LearnerError(
                self.settings.policy,
                phase,
                sorted(pending.values()),
                f"no answer within {self.timeout_s:g} s (learner.timeout_s)",
            )
        return [answers[rank] for rank in sorted(answers)]

    def _manifest(self, value: Any) -> WeightUpdate:
        if not isinstance(value, WeightUpdate):
            raise TypeError(f"rank 0 published {type(value).__name__}, not a WeightUpdate")
        return value

    def _check_open(self) -> None:
        if not self.actors:
            raise LearnerError(self.settings.policy, "call", [0], "the group is closed")


def error_of(policy: str, phase: str, failed: dict[int, BaseException]) -> BaseException:
    """What to raise for ranks that failed: a death before a typed error before anything else."""
    from ray.exceptions import RayError, RayTaskError

    for rank, error in sorted(failed.items()):
        # Not raised by the rank's own code: killed, out of memory, its node lost.
        if isinstance(error, RayError) and not isinstance(error, RayTaskError):
            return LearnerError(policy, phase, [rank], f"its process died ({_first_line(error)})")
    causes = {
        rank: error.cause if isinstance(error, RayTaskError) and error.cause is not None else error
        for rank, error in failed.items()
    }
    for _, cause in sorted(causes.items()):
        if isinstance(cause, AgentMemError):
            return cause
    rank, cause = min(causes.items())
    wrapped = AgentMemError(
        f"learner of policy '{policy}': rank {rank}, phase {phase}: "
        f"{type(cause).__name__}: {_first_line(cause)}"
    )
    wrapped.__cause__ = failed[rank]
    return wrapped


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
