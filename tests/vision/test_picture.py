"""What a picture may be, in which forms it is given, and what is said of one that can't be used."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image

from agentmem.vision.picture import MAX_BYTES, Picture, PictureError, picture_of
from tests.vision.seeing import pixels


def encoded(kind: str, image: Image.Image | None = None) -> bytes:
    file = io.BytesIO()
    (image or pixels(0)).save(file, kind)
    return file.getvalue()


def test_the_same_pixels_are_the_same_picture_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded("PNG"))
    forms = [pixels(0), encoded("PNG"), tmp_path / "a.png", str(tmp_path / "a.png"), picture_of(pixels(0))]
    found = {picture_of(form) for form in forms}
    assert len({one.sha256 for one in found}) == 1
    assert picture_of(pixels(0)).decoded().tobytes() == pixels(0).tobytes()
    assert picture_of(pixels(0)) != picture_of(pixels(1))


def test_a_png_is_kept_byte_for_byte_and_other_formats_become_one() -> None:
    assert picture_of(encoded("PNG")).png == encoded("PNG")
    assert picture_of(encoded("BMP")).decoded().tobytes() == pixels(0).tobytes()
    assert picture_of(encoded("JPEG")).size == (32, 32)


def test_transparency_and_grey_are_seen_as_colours() -> None:
    assert picture_of(pixels(0).convert("L")).decoded().mode == "RGB"
    assert picture_of(encoded("PNG", pixels(0).convert("RGBA"))).decoded().mode == "RGB"


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("nowhere/a.png", "image nowhere/a.png: No such file"),
        (b"hello", "image: no readable image"),
        (encoded("PNG")[:-30], "image: no readable image"),
        (Image.new("RGB", (5000, 10)), "5000 x 10 pixels: each side may have 1 to 4096"),
        (encoded("PNG", Image.new("RGB", (5000, 10))), "5000 x 10 pixels"),
        (Image.new("RGB", (900, 4)), "one side is over 200 times the other"),
        (7, "image is int: an image of Pillow"),
    ],
    ids=["no file", "no image", "torn", "too wide", "too wide, encoded", "too long", "a number"],
)
def test_what_can_t_be_used_is_said_in_a_line(what: object, told: str) -> None:
    with pytest.raises(PictureError, match=told) as caught:
        picture_of(what)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_too_many_bytes_are_refused_on_the_wire_as_well() -> None:
    good = picture_of(pixels(0))
    with pytest.raises(ValueError, match=f"at most {MAX_BYTES}"):
        Picture(png=good.png + bytes(MAX_BYTES), sha256=good.sha256)
    with pytest.raises(PictureError, match="aren't those of its hash"):
        Picture(png=good.png + b" ", sha256=good.sha256).decoded()
