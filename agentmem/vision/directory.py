"""Model directories: which of them see, what of their configuration is the language model's, and naming.

A vision-language model nests the language model's sizes in `text_config` (older files have them beside
`vision_config`). Its files also call the tensors otherwise than its modules do: files and engines speak the
files' language, which `file_name` and `module_name` translate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

SEEING = ("qwen2_5_vl",)
"""The `model_type`s whose pictures are understood here."""

_NAMES = (("model.visual.", "visual."), ("model.language_model.", "model."))
"""(as a module, as in a file) beginnings of the names of tensors in a model that sees."""


def model_type(path: str | Path) -> str:
    """The `model_type` of a directory's config.json; empty if it has none."""
    return _model_type(str(path))


@lru_cache(64)
def _model_type(path: str) -> str:
    try:
        config = json.loads((Path(path) / "config.json").read_text(encoding="utf-8"))
        return str(config.get("model_type") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def sees(path: str | Path) -> bool:
    """Whether the model in this directory takes pictures."""
    return model_type(path) in SEEING


def language_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a config.json says of the language model: its own fields, with those of `text_config` over
    them."""
    nested = config.get("text_config")
    return {**config, **nested} if isinstance(nested, dict) else dict(config)


def causal_model(path: str | Path) -> Any:
    """The class of transformers that loads this directory's model with its output layer."""
    import transformers

    return transformers.AutoModelForImageTextToText if sees(path) else transformers.AutoModelForCausalLM


def file_name(name: str) -> str:
    """A tensor's name in the files of a model that sees, from its name in the module."""
    return next((theirs + name[len(ours) :] for ours, theirs in _NAMES if name.startswith(ours)), name)


def module_name(name: str) -> str:
    """The opposite of `file_name`. A name that is the module's already stays."""
    if any(name.startswith(ours) for ours, _ in _NAMES):
        return name
    return next((ours + name[len(theirs) :] for ours, theirs in _NAMES if name.startswith(theirs)), name)
