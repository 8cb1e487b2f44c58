"""A picture as it is stored and sent: the bytes of a PNG, and their hash.

It is never kept decoded. Limits hold for every picture, also for one that comes from the wire: at most
`MAX_BYTES` of PNG, each side from 1 to `MAX_SIDE` pixels, no side over `MAX_RATIO` times the other (what
models take). A picture beyond them is an error, never scaled or dropped in silence; the model's own processor
scales what it is given to its own size.
"""

from __future__ import annotations

import hashlib
import io
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from agentmem.failures import AgentMemError

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 4 << 20
MAX_SIDE = 4096
MAX_RATIO = 200

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""What `picture_of` reads."""


class PictureError(AgentMemError):
    """A picture is missing, isn't one, or is too large."""


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """See the module's docstring. Raises ValueError for bytes that break a limit."""

    png: bytes
    sha256: str
    """Of `png`, in hexadecimal: by it pictures are told apart and results are cached."""

    def __post_init__(self) -> None:
        if len(self.png) > MAX_BYTES:
            raise ValueError(f"picture: {len(self.png)} bytes of PNG: at most {MAX_BYTES} are allowed")
        if self.png[:8] != _SIGNATURE or self.png[12:16] != b"IHDR" or len(self.png) < 24:
            raise ValueError(f"picture: {len(self.png)} bytes that aren't a PNG")
        width, height = self.size
        if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
            raise ValueError(f"picture: {width} x {height} pixels: each side may have 1 to {MAX_SIDE}")
        if max(width, height) > MAX_RATIO * min(width, height):
            raise ValueError(
                f"picture: {width} x {height} pixels: one side is over {MAX_RATIO} times the other"
            )
        if len(self.sha256) != 64:
            raise ValueError(f"picture: its hash has {len(self.sha256)} digits: must be 64 (SHA-256)")

    @classmethod
    def of_png(cls, png: bytes) -> Picture:
        """Of a PNG's bytes, which are kept as they are. Raises PictureError."""
        try:
            return cls(png=png, sha256=hashlib.sha256(png).hexdigest())
        except ValueError as error:
            raise PictureError(str(error)) from None

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, as the file's head declares them."""
        width, height = struct.unpack(">II", self.png[16:24])
        return width, height

    def decoded(self) -> Image:
        """The pixels, as RGB. Raises PictureError for a damaged picture."""
        if hashlib.sha256(self.png).hexdigest() != self.sha256:
            raise PictureError(f"picture {self.sha256[:12]}: its bytes aren't those of its hash")
        return _open(self.png, f"picture {self.sha256[:12]}", ("PNG",)).convert("RGB")

    def __repr__(self) -> str:
        width, height = self.size
        return f"<picture {self.sha256[:12]}, {width} x {height}, {len(self.png)} bytes>"


PictureLike: TypeAlias = "Picture | Image | bytes | str | Path"
"""A picture, an image of Pillow, the bytes of an image file (PNG, JPEG, WebP, GIF, BMP), or the file's
path."""


def picture_of(image: PictureLike) -> Picture:
    """A picture of whatever holds one. Raises PictureError naming what is wrong.

    A PNG's bytes are kept as they are; anything else is encoded as a PNG in RGB.
    """
    if isinstance(image, Picture):
        return image
    where = "image"
    if isinstance(image, str | Path):
        where = f"image {image}"
        try:
            image = Path(image).expanduser().read_bytes()
        except OSError as error:
            raise PictureError(f"{where}: {error.strerror or error}") from None
    if isinstance(image, bytes | bytearray | memoryview):
        data = bytes(image)
        opened = _open(data, where, _FORMATS)
        if opened.format == "PNG":
            return _kept(data, where)
        return _kept(_encoded(opened), where)
    if hasattr(image, "convert") and hasattr(image, "size"):
        return _kept(_encoded(image), where)
    raise PictureError(
        f"{where} is {type(image).__name__}: an image of Pillow, bytes of an image file, or a path is needed"
    )


def _kept(png: bytes, where: str) -> Picture:
    try:
        return Picture.of_png(png)
    except PictureError as error:
        raise PictureError(f"{where}: {error}") from None


def _encoded(image: Any) -> bytes:
    file = io.BytesIO()
    image.convert("RGB").save(file, "PNG")
    return file.getvalue()


def _open(data: bytes, where: str, formats: tuple[str, ...]) -> Image:
    """The image in these bytes, decoded whole. Its declared size is looked at before anything is decoded."""
    from PIL import Image as pillow

    try:
        image = pillow.open(io.BytesIO(data), formats=formats)
        if max(image.size) > MAX_SIDE:
            width, height = image.size
            raise PictureError(
                f"{where}: {width} x {height} pixels: each side may have 1 to {MAX_SIDE} (scale it down)"
            )
        image.load()
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise PictureError(f"{where}: no readable image ({' '.join(str(error).split())})") from None
    return image
