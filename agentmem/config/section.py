"""What all sections of the configuration are made of: strict models, and numbers with their bounds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Beta = Annotated[float, Field(ge=0, lt=1)]
NonNegative = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """Strict: no unknown key, no silent conversion, no change after loading."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
