"""How weights travel from the learner to the engines: one file per transport, sender and receiver together.

Every transport *stages*: tensors arrive beside the serving model, off the engine's step loop, and are loaded
only when they are complete. So a transfer that fails or never ends leaves the old version serving.
"""

from agentmem.weights.base import (
    Adapter,
    Deadlines,
    Phase,
    Probe,
    Receiver,
    Staged,
    TensorMeta,
    UpdateReport,
    WeightUpdate,
)

__all__ = [
    "Adapter",
    "Deadlines",
    "Phase",
    "Probe",
    "Receiver",
    "Staged",
    "TensorMeta",
    "UpdateReport",
    "WeightUpdate",
]
