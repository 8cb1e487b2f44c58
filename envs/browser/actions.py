"""What an agent can do in a browser: one call of one of these functions, as in `click('12')`.

The functions' signatures are the grammar: `read` accepts exactly one call whose arguments are literals of the
declared types, and returns it in a canonical form. Nothing of an answer is ever run as code here, and
BrowserGym, which turns the canonical form into code, gets nothing but this form. They have the names,
parameters and effects of BrowserGym's high-level actions; those that read local files are left out.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
from collections.abc import Collection
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

Button = Literal["left", "middle", "right"]
Modifier = Literal["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]

MOST_CHARS = 4000
"""A longer action is invalid."""
MOST_PIXELS = 100_000
"""No number of an action may be larger."""
_LIMITS = {"noop": {"wait_ms": 5000}}


class Actions:
    """The functions' forms, never called. A docstring is what the prompt says of the function."""

    @staticmethod
    def noop(wait_ms: float = 1000) -> None:
        """do nothing, but wait for some milliseconds (at most 5000)"""

    @staticmethod
    def click(bid: str, button: Button = "left", modifiers: list[Modifier] = []) -> None:  # noqa: B006
        """click an element"""

    @staticmethod
    def dblclick(bid: str, button: Button = "left", modifiers: list[Modifier] = []) -> None:  # noqa: B006
        """click an element twice"""

    @staticmethod
    def hover(bid: str) -> None:
        """move the mouse over an element"""

    @staticmethod
    def fill(bid: str, value: str, enable_autocomplete_menu: bool = False) -> None:
        """replace the text of an input field; True at the end lets a menu of suggestions open"""

    @staticmethod
    def select_option(bid: str, options: str | list[str]) -> None:
        """choose one option (or several) of a drop-down list by label or value"""

    @staticmethod
    def press(bid: str, key_comb: str) -> None:
        """focus an element and press keys, such as 'Enter' or 'Control+a'"""

    @staticmethod
    def focus(bid: str) -> None:
        """put the focus on an element"""

    @staticmethod
    def clear(bid: str) -> None:
        """empty an input field"""

    @staticmethod
    def drag_and_drop(from_bid: str, to_bid: str) -> None:
        """drag one element onto another"""

    @staticmethod
    def scroll(delta_x: float, delta_y: float) -> None:
        """scroll by pixels; positive is right and down"""

    @staticmethod
    def mouse_move(x: float, y: float) -> None:
        """move the mouse to a place"""

    @staticmethod
    def mouse_click(x: float, y: float, button: Button = "left") -> None:
        """click at a place"""

    @staticmethod
    def mouse_dblclick(x: float, y: float, button: Button = "left") -> None:
        """click twice at a place"""

    @staticmethod
    def mouse_down(x: float, y: float, button: Button = "left") -> None:
        """press a mouse button at a place and hold it"""

    @staticmethod
    def mouse_up(x: float, y: float, button: Button = "left") -> None:
        """release a mouse button at a place"""

    @staticmethod
    def mouse_drag_and_drop(from_x: float, from_y: float, to_x: float, to_y: float) -> None:
        """drag from one place to another"""

    @staticmethod
    def keyboard_press(key: str) -> None:
        """press keys, such as 'Enter' or 'Control+a'"""

    @staticmethod
    def keyboard_type(text: str) -> None:
        """type a text where the focus is"""

    @staticmethod
    def goto(url: str) -> None:
        """open an address (http or https)"""

    @staticmethod
    def go_back() -> None:
        """go back to the page before"""

    @staticmethod
    def go_forward() -> None:
        """go forward again"""

    @staticmethod
    def new_tab() -> None:
        """open a new tab and switch to it"""

    @staticmethod
    def tab_close() -> None:
        """close this tab"""

    @staticmethod
    def tab_focus(index: int) -> None:
        """switch to another tab"""

    @staticmethod
    def send_msg_to_user(text: str) -> None:
        """give the user an answer"""

    @staticmethod
    def report_infeasible(reason: str) -> None:
        """tell the user that the task can't be done, and why"""


NAMES = tuple(name for name in vars(Actions) if not name.startswith("_"))


def read(text: str, allowed: Collection[str]) -> str | None:
    """The one action that this text is, in canonical form; None if it is anything else.

    The canonical form reads as itself.
    """
    call = _call(text)
    if call is None or call[0] not in allowed or call[0] not in NAMES:
        return None
    name, positional, named = call
    signature, hints = _form(name)
    try:
        bound = signature.bind(*positional, **named)
    except TypeError:
        return None
    limits = _LIMITS.get(name, {})
    for key, value in bound.arguments.items():
        if not _fits(value, hints[key]):
            return None
        if key in limits and not 0 <= value <= limits[key]:
            return None
    if name == "goto" and not re.match(r"https?://[^/]", bound.arguments["url"]):
        return None
    shown = [repr(value) for value in bound.args] + [
        f"{key}={value!r}" for key, value in bound.kwargs.items()
    ]
    return f"{name}({', '.join(shown)})"


def described(allowed: Collection[str]) -> str:
    """A line for each action: its form and what it does."""
    return "\n".join(f"{_shown(name)}: {inspect.getdoc(getattr(Actions, name))}" for name in allowed)


def sample_action(rng: random.Random, observation: str) -> str:
    """A random action on an element of this observation, for measurements."""
    fields = re.findall(r"\[(\w+)\] (?:textbox|searchbox|combobox)", observation)
    elements = re.findall(r"\[(\w+)\] (?!RootWebArea)", observation)
    if fields and rng.random() < 0.3:
        return f"fill({rng.choice(fields)!r}, 'some text')"
    return f"click({rng.choice(elements)!r})" if elements else "scroll(0, 100)"


def _call(text: str) -> tuple[str, list[Any], dict[str, Any]] | None:
    """Name and literal arguments of the call that this text is, and nothing else."""
    text = text.strip()
    if len(text) > MOST_CHARS:
        return None
    try:
        text.encode()  # lone surrogates can't be typed
        node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords if keyword.arg}
        if len(named) < len(node.keywords):
            return None
        return node.func.id, [ast.literal_eval(argument) for argument in node.args], named
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


def _fits(value: object, kind: Any) -> bool:
    """Whether a literal is of this type, and within bounds if it is a number."""
    origin = get_origin(kind)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, get_args(kind)[0]) for item in value)
    if origin is UnionType:
        return any(_fits(value, one) for one in get_args(kind))
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind in (int, float):
        # Not a number, and infinite, are no literals, but 1e999 is.
        return isinstance(value, int if kind is int else int | float) and abs(value) <= MOST_PIXELS
    return isinstance(value, kind)


@cache
def _form(name: str) -> tuple[inspect.Signature, dict[str, Any]]:
    function = getattr(Actions, name)
    return inspect.signature(function), get_type_hints(function)


def _shown(name: str) -> str:
    """The function's form for a prompt: optional parameters with their defaults, types left out."""
    parameters = [
        parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
        for parameter in _form(name)[0].parameters.values()
    ]
    return f"{name}({', '.join(parameters)})"
