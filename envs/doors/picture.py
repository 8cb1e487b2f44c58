"""A room as a picture: what a policy that sees is shown besides the room's name.

A wall in the colour of the room's kind with a tile on it that no other kind has, and below it the doors in
their colours, in the order of the options. 32 x 32 pixels, the same for the same room everywhere.
"""

from __future__ import annotations

import io
from functools import lru_cache

from envs.doors.options import KINDS
from envs.options import EnvSetupError

SIDE = 32
_PAINT = {
    "red": (200, 30, 30),
    "blue": (40, 70, 210),
    "green": (30, 150, 60),
    "black": (15, 15, 15),
    "white": (245, 245, 245),
    "gold": (225, 180, 40),
    "grey": (128, 128, 128),
    "brown": (120, 75, 35),
}
_WALLS = (
    (250, 240, 200), (180, 220, 250), (90, 90, 110), (240, 180, 210), (150, 90, 60),
    (200, 200, 255), (160, 130, 60), (120, 230, 120), (255, 160, 90), (60, 160, 160),
)  # fmt: skip
"""By kind, in the order of `KINDS`."""
_TILE = 4
_INK = (30, 20, 60)


@lru_cache(maxsize=64)
def room_png(kind: str, doors: tuple[str, ...]) -> bytes:
    """PNG of a room of this kind."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise EnvSetupError(
            "option screenshot=True: the package Pillow is missing: pip install pillow"
        ) from None
    number = KINDS.index(kind)
    image = Image.new("RGB", (SIDE, SIDE), _WALLS[number])
    draw = ImageDraw.Draw(image)
    # The tile: the kind's number in bits, four across, repeated along the wall.
    for x in range(SIDE // _TILE):
        if (number + 1) >> (x % 4) & 1:
            draw.rectangle((x * _TILE, _TILE, (x + 1) * _TILE - 1, 3 * _TILE - 1), fill=_INK)
    for place, door in enumerate(doors):
        left, right = (SIDE * n // len(doors) for n in (place, place + 1))
        draw.rectangle((left, SIDE // 2, right - 2, SIDE - 1), fill=_PAINT[door])
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
