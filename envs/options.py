"""Options of an environment: a frozen dataclass made from a plain dictionary, with errors of one clear line.

An options class declares plain types (`int`, `float`, `bool`, `str`, `Literal[...]`, `tuple[..., ...]`,
`Mapping[str, ...]` or another such class; `Any` for what others check) with defaults, and checks its ranges
in `__post_init__` by `require`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


class EnvSetupError(ValueError):
    """An environment can't be used as asked: unknown, wrongly configured, or lacking something it needs."""


def require(holds: bool, key: str, value: object, allowed: str) -> None:
    """Raise `EnvSetupError` naming key, value and what is allowed, unless `holds`."""
    if not holds:
        raise EnvSetupError(f"option {key}={value!r}: must be {allowed}")


def parse_options(cls: type[T], options: Mapping[str, Any], path: str = "") -> T:
    """The options as an instance of `cls`. Raises `EnvSetupError` on an unknown key or a wrong value."""
    hints = get_type_hints(cls)
    unknown = [key for key in options if key not in hints]
    if unknown:
        key, allowed = unknown[0], ", ".join(sorted(hints))
        raise EnvSetupError(f"unknown option {path}{key}={options[key]!r}: allowed are {allowed}")
    return cls(**{key: _value(hints[key], path + key, value) for key, value in options.items()})


def _value(kind: Any, key: str, value: Any) -> Any:
    if get_origin(kind) is Literal:
        allowed = get_args(kind)
        require(value in allowed, key, value, "one of " + ", ".join(map(str, allowed)))
        return value
    if get_origin(kind) is tuple:
        require(isinstance(value, list | tuple), key, value, "a list")
        return tuple(_value(get_args(kind)[0], f"{key}[{i}]", item) for i, item in enumerate(value))
    if get_origin(kind) is Mapping:
        require(isinstance(value, Mapping), key, value, "a mapping")
        return {name: _value(get_args(kind)[1], f"{key}.{name}", item) for name, item in value.items()}
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if isinstance(value, kind):
            return value
        require(isinstance(value, Mapping), key, value, "a mapping")
        return parse_options(kind, value, path=f"{key}.")
    if kind is float:
        require(isinstance(value, int | float) and not isinstance(value, bool), key, value, "a number")
        return float(value)
    if kind is int:
        require(isinstance(value, int) and not isinstance(value, bool), key, value, "a whole number")
        return value
    require(isinstance(value, kind), key, value, f"of type {kind.__name__}")
    return value
