"""Small SVG plots. Colours are CSS variables of the page, so that a plot follows its light or dark scheme.

A `Plot` maps data to a drawing of fixed inner size, which the page scales to its column. Text is escaped
here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

Point = tuple[float, float]


def number(value: float) -> str:
    """A coordinate: two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """An element; `class_` stands for `class`, other underscores for hyphens. None leaves one out."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = number(value) if isinstance(value, float) else str(value)
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    return f"<{' '.join(parts)}>{content}</{name}>"


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most about `most`."""
    if not low < high:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [n * step + 0.0 for n in range(first, last + 1)]


def compact(value: float) -> str:
    """A tick's label: 1500 as 1.5k."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{suffix}"
    return f"{value:g}"


@dataclass(slots=True)
class Plot:
    """A drawing with axes. Later shapes cover earlier ones."""

    width: float
    height: float
    x_range: Point
    y_range: Point
    left: float = 46.0
    right: float = 16.0
    top: float = 30.0
    bottom: float = 40.0
    parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        """Data to drawing."""
        low, high = self.x_range
        inner = self.width - self.left - self.right
        return self.left + inner * (value - low) / ((high - low) or 1.0)

    def y(self, value: float) -> float:
        """Data to drawing; upwards."""
        low, high = self.y_range
        inner = self.height - self.top - self.bottom
        return self.height - self.bottom - inner * (value - low) / ((high - low) or 1.0)

    def y_axis(self, label: str, form: Callable[[float], str] = compact) -> None:
        """Grid lines with their numbers."""
        for value in ticks(*self.y_range, most=5):
            at = self.y(value)
            self.line((self.left, at), (self.width - self.right, at), "grid")
            self.text(self.left - 8, at + 4, form(value), "tick", anchor="end")
        self.text(self.left - 38, self.top - 16, label, "axis", anchor="start")

    def x_axis(self, label: str, form: Callable[[float], str] = compact, most: int = 6) -> None:
        """The base line, numbers below it, and the label below these."""
        base = self.height - self.bottom
        self.line((self.left, base), (self.width - self.right, base), "base")
        for value in ticks(*self.x_range, most=most):
            self.text(self.x(value), base + 16, form(value), "tick")
        self.text((self.left + self.width - self.right) / 2, base + 34, label, "axis")

    def line(self, a: Point, b: Point, kind: str, **more: object) -> None:
        """In drawing coordinates."""
        self.parts.append(tag("line", x1=a[0], y1=a[1], x2=b[0], y2=b[1], class_=kind, **more))

    def rect(self, x: float, y: float, width: float, height: float, title: str = "", **more: object) -> None:
        """In drawing coordinates; `title` is shown on hovering."""
        about = tag("title", escape(title)) if title else ""
        shape = {"x": x, "y": y, "width": max(0.0, width), "height": max(0.0, height)}
        self.parts.append(tag("rect", about, **shape, **more))

    def text(self, x: float, y: float, text: str, kind: str = "label", anchor: str = "middle") -> None:
        """In drawing coordinates."""
        self.parts.append(tag("text", escape(text), x=x, y=y, class_=kind, text_anchor=anchor))

    def path(self, points: Sequence[Point], **more: object) -> None:
        """A line through points of data."""
        steps = " L".join(f"{number(self.x(x))} {number(self.y(y))}" for x, y in points)
        self.parts.append(tag("path", d=f"M{steps}", fill="none", **more))

    def band(self, lower: Sequence[Point], upper: Sequence[Point], **more: object) -> None:
        """The area between two lines of data."""
        around = [*lower, *reversed(upper)]
        steps = " ".join(f"{number(self.x(x))},{number(self.y(y))}" for x, y in around)
        self.parts.append(tag("polygon", points=steps, stroke="none", **more))

    def dot(self, at: Point, title: str = "", radius: float = 3.5, **more: object) -> None:
        """A point of data."""
        about = tag("title", escape(title)) if title else ""
        self.parts.append(tag("circle", about, cx=self.x(at[0]), cy=self.y(at[1]), r=radius, **more))

    def render(self, label: str) -> str:
        """The `<svg>` element; `label` is for readers who don't see it."""
        return tag(
            "svg",
            "".join(self.parts),
            viewBox=f"0 0 {number(self.width)} {number(self.height)}",
            role="img",
            aria_label=label,
        )
