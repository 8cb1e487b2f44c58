"""EMPO²'s intrinsic reward: how new a state is to a task (arXiv 2602.23008).

    s_t    the state of step t: the distinct state of the task with the best cosine, if that is >= τ;
           else the step starts a new one
    r_int  = 1 / (visits of s_t, this one included)          1, ½, ⅓, …
    r      = r_ext + c · r_int

A state is represented by the embedding that started it and never moves, so the order of visits decides what
is distinct. The sum is taken before the group normalisation, so that the novelty reaches the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]
FloatType = type[np.float32] | type[np.float64]

_FIRST_ROWS = 16


@dataclass(frozen=True, slots=True)
class NoveltyState:
    """What a checkpoint keeps of one task: `unit[states, dimension]` and how often each state was visited."""

    unit: FloatArray
    visits: npt.NDArray[np.int64]
    zero_visits: int


class StateNovelty:
    """The distinct states of one task and their visit counts.

    Embeddings need not be normalised. The zero vector, which has no direction (an empty text), is a state of
    its own. Not safe for concurrent use. `dtype` is that of the stored states: float32 holds 384 dimensions
    in 1.5 kB.
    """

    def __init__(self, tau: float = 0.9, dtype: FloatType = np.float32) -> None:
        if not -1.0 <= tau <= 1.0:
            raise ValueError(f"tau is {tau}: a cosine lies in [-1, 1]")
        self.tau = tau
        self._dtype = dtype
        # Up to rounding: a repeated embedding's cosine with itself may be 1 - 1e-7, and must reach τ = 1.
        self._reach = tau - 16 * float(np.finfo(self._dtype).eps)
        self._unit: FloatArray = np.zeros((0, 0), dtype=self._dtype)  # rows beyond _count are spare
        self._visits: list[int] = []
        self._zero_visits = 0

    def __len__(self) -> int:
        """Number of distinct states, the zero vector's included."""
        return len(self._visits) + (self._zero_visits > 0)

    def visit(self, embedding: npt.ArrayLike) -> float:
        """Count one visit of the state with this embedding `[dimension]`; its intrinsic reward in (0, 1]."""
        return self.visit_all(np.asarray(embedding)[None])[0]

    def visit_all(self, embeddings: npt.ArrayLike) -> list[float]:
        """Count the visits of an episode, `[steps, dimension]` in order; the intrinsic reward of each.

        The same as one `visit` after the other, with one matrix product for all. Raises ValueError for a
        wrong dimension or a non-finite number, before anything is counted.
        """
        steps = np.asarray(embeddings, dtype=self._dtype)
        if steps.size == 0:
            return []
        if steps.ndim != 2 or (self._visits and steps.shape[1] != self._unit.shape[1]):
            raise ValueError(
                f"embeddings of shape {steps.shape}; this task's states have {self._unit.shape[1]} numbers"
            )
        if not np.isfinite(steps).all():
            raise ValueError("an embedding has a non-finite number")
        norms = np.linalg.norm(steps, axis=1)
        unit = steps / np.where(norms > 0, norms, 1.0)[:, None]
        return self._count(unit, norms > 0)

    def _count(self, unit: FloatArray, has_direction: npt.NDArray[np.bool_]) -> list[float]:
        known = len(self._visits)
        best, nearest = np.full(len(unit), -np.inf), np.zeros(len(unit), dtype=np.int64)
        if known:
            cosines = unit @ self._unit[:known].T
            nearest = cosines.argmax(axis=1)
            best = cosines[np.arange(len(unit)), nearest]
        among = unit @ unit.T  # for the states that this very episode starts
        started: list[int] = []
        rewards: list[float] = []
        for step in range(len(unit)):
            if not has_direction[step]:
                self._zero_visits += 1
                rewards.append(1.0 / self._zero_visits)
                continue
            state, cosine = int(nearest[step]), float(best[step])
            if started:
                fresh = among[step, started]
                closest = int(fresh.argmax())
                if fresh[closest] > cosine:
                    state, cosine = known + closest, float(fresh[closest])
            if cosine >= self._reach:
                self._visits[state] += 1
            else:
                state = len(self._visits)
                started.append(step)
                self._visits.append(1)
            rewards.append(1.0 / self._visits[state])
        if started:
            self._store(unit[started], known)
        return rewards

    def _store(self, rows: FloatArray, at: int) -> None:
        if at + len(rows) > len(self._unit):
            # Doubling keeps the cost of a growing list linear.
            capacity = max(_FIRST_ROWS, 2 * (at + len(rows)))
            grown = np.zeros((capacity, rows.shape[1]), dtype=self._dtype)
            if at:
                grown[:at] = self._unit[:at]
            self._unit = grown
        self._unit[at : at + len(rows)] = rows

    def state(self) -> NoveltyState:
        """A copy of everything that is counted."""
        count = len(self._visits)
        return NoveltyState(
            self._unit[:count].copy(), np.array(self._visits, dtype=np.int64), self._zero_visits
        )

    def restore(self, state: NoveltyState) -> None:
        """Replace what is counted by a copy that `state` returned."""
        self._unit = np.array(state.unit, dtype=self._dtype)
        self._visits = [int(visits) for visits in state.visits]
        self._zero_visits = int(state.zero_visits)


class Novelty:
    """One `StateNovelty` per task, made when the task is first seen: what is old in one is new in another."""

    def __init__(self, tau: float = 0.9, dtype: FloatType = np.float32) -> None:
        StateNovelty(tau, dtype)  # refuses a bad tau now, not at the first visit
        self._tau, self._dtype = tau, dtype
        self._tasks: dict[str, StateNovelty] = {}

    def visit_all(self, task: str, embeddings: npt.ArrayLike) -> list[float]:
        """`StateNovelty.visit_all` in the list of this task."""
        if task not in self._tasks:
            self._tasks[task] = StateNovelty(self._tau, self._dtype)
        return self._tasks[task].visit_all(embeddings)

    def state(self) -> dict[str, NoveltyState]:
        """A copy of the counts of every task."""
        return {task: states.state() for task, states in self._tasks.items()}

    def restore(self, tasks: Mapping[str, NoveltyState]) -> None:
        """Replace all counts by what `state` returned."""
        self._tasks = {}
        for task, state in tasks.items():
            self._tasks[task] = StateNovelty(self._tau, self._dtype)
            self._tasks[task].restore(state)


def with_intrinsic(
    rewards: Sequence[float | None],
    intrinsic: Sequence[float],
    *,
    coefficient: float = 0.1,
    reward_scale: float = 1.0,
) -> list[float | None]:
    """r = r_ext + c · scale · r_int per step; a failed step (None) stays failed.

    `reward_scale` is the size of the environment's rewards (10 where a success pays 10), so that c is
    dimensionless.
    """
    if len(rewards) != len(intrinsic):
        raise ValueError(f"{len(intrinsic)} intrinsic rewards for {len(rewards)} steps")
    bonus = coefficient * reward_scale
    return [None if r is None else r + bonus * novel for r, novel in zip(rewards, intrinsic, strict=True)]
