"""What is trained, as data: rows, what became of each trial, and the counts of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from agentmem.sampling import Sampling
from agentmem.trajectory import TurnKind
from agentmem.vision.picture import Picture


class Part(IntEnum):
    """Which mean of the loss a row's tokens belong to. Most methods have one, and rows of CONTENT only."""

    CONTENT = 0
    """What a policy wrote."""
    DECISION = 1
    """Mem-π: the token that says whether a hint follows."""
    EXAMPLE = 2
    """Mem-π: a hint of the bank, to be learnt by heart."""


@dataclass(frozen=True, slots=True)
class Row:
    """One turn to be trained. `engine` and `versions` are as long as `response`.

    The first `forced` response ids weren't sampled: they are input, not trained. `trial` numbers the trials
    of the update. `value_target` (PPO, act turns): what the value head should say at the last prompt token.
    """

    prompt: tuple[int, ...]
    response: tuple[int, ...]
    engine: tuple[float, ...]
    versions: tuple[int, ...]
    sampling: Sampling
    advantage: float
    trial: int
    kind: TurnKind = TurnKind.ACT
    forced: int = 0
    value_target: float | None = None
    replayed: bool = False
    """Of a group that was trained before: its ratio is against `engine`."""
    off_policy: bool = False
    """EMPO²: `prompt` isn't the one that was answered, but the same without tips."""
    part: Part = Part.CONTENT
    image: Picture | None = None
    """The picture in `prompt`."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """What the model reads: all but the last response id, which is only predicted."""
        return self.prompt + self.response[:-1]

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return len(self.response) - self.forced


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """What became of a consumed trial. `advantages`: those of its act turns, then of its reflections; Mem-π:
    those of its decisions."""

    ticket: str
    member: int
    reward: float | None
    advantages: tuple[float, ...]
    tokens: int
    """Trained tokens."""


@dataclass(frozen=True, slots=True)
class RowStats:
    """Counts of one batch. `reward_mean` is over usable trials: the sum of a trial's learning rewards."""

    trials: int = 0
    unusable_trials: int = 0
    intrinsic_mean: float = 0.0
    """Over usable trials: the sum of a trial's intrinsic rewards."""
    turns: int = 0
    """Turns of the trained policy in usable trials that have an advantage."""
    rows: int = 0
    zero_rows: int = 0
    """Turns left out because their advantage is zero; Mem-π: rows of zero advantage, mostly not left out."""
    trained_tokens: int = 0
    reward_mean: float = 0.0
    advantage_rms: float = 0.0
    """Before scaling."""
    invalid_share: float = 0.0
    """Of the act turns."""
    version_min: int | None = None
    version_max: int | None = None
    explained_variance: float | None = None
    """PPO: share of the value targets' variance that the values before the update explain."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """The rows of an update, what was counted, and one record per trial."""

    rows: list[Row]
    stats: RowStats
    records: list[TrialRecord] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)
    """What else the method has to report of the batch; it goes into the update's metrics."""
