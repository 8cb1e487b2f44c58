"""From a picture to a prompt and to a model's inputs, held against the library's processor and positions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from agentmem.chat import ChatCodec
from agentmem.failures import ModelError
from agentmem.vision.inputs import packed, padded
from agentmem.vision.picture import PictureError
from agentmem.vision.prompting import picture_prompt
from agentmem.vision.reader import PictureReader
from tests.learner_group.advised import save_memory_model
from tests.vision.seeing import picture, prompt_of

SIZES = [(32, 32), (64, 20), (17, 90), (8, 8), (640, 480)]


@pytest.fixture(scope="module")
def reader(model: str) -> PictureReader:
    return PictureReader(model)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_places_in_a_prompt_are_as_many_as_the_tower_s_tokens(
    reader: PictureReader, width: int, height: int
) -> None:
    image = picture(0, width, height)
    seen = reader.read(image)
    assert seen.grid == reader.grid(image)
    assert len(seen.patches) == np.prod(seen.grid)
    assert reader.placed(image).count(reader.pad) == reader.tokens(seen.grid) == len(seen.patches) // 4


def test_positions_are_the_library_s(model: str, reader: PictureReader) -> None:
    from transformers import AutoModelForImageTextToText

    theirs = AutoModelForImageTextToText.from_pretrained(model).model
    images = [picture(n, *size) for n, size in enumerate(SIZES)]
    sights = [((*prompt_of(model, image), *range(5, 5 + n)), image) for n, image in enumerate(images)]
    longest = max(len(ids) for ids, _ in sights)
    positions, _ = padded(reader, sights, longest)
    assert positions is not None
    row, _ = packed(reader, sights)
    start = 0
    for b, (ids, image) in enumerate(sights):
        one = torch.tensor([ids])
        grid = torch.tensor([reader.grid(image)])
        wanted, _ = theirs.get_rope_index(one, (one == reader.pad).int(), image_grid_thw=grid)
        assert positions[:, b, : len(ids)].tolist() == wanted[:, 0].tolist()
        assert row[1:, 0, start : start + len(ids)].tolist() == wanted[:, 0].tolist()
        assert row[0, 0, start : start + len(ids)].tolist() == list(range(len(ids)))
        start += len(ids)


def test_a_picture_stands_before_the_first_user_message(model: str, reader: PictureReader) -> None:
    codec, image = ChatCodec(model), picture()
    messages = [("system", "w0 w1"), ("user", "w2 w3")]
    ids, cut = picture_prompt(codec, messages, image, reader, 200)
    plain = codec.encode(messages)
    at = ids.index(reader.start)
    assert (ids[:at], ids[at + len(reader.placed(image)) :]) == (plain[:3], plain[3:])
    assert not cut
    raw, _ = picture_prompt(codec, "w2 w3", image, reader, 200)
    assert raw == (1, *reader.placed(image), *codec.plain("w2 w3"))


def test_without_a_picture_the_prompt_is_the_text_model_s(model: str, reader: PictureReader) -> None:
    codec = ChatCodec(model)
    assert picture_prompt(codec, "w2 w3", None, reader, 200) == (codec.encode("w2 w3"), False)


def test_text_that_looks_like_a_picture_s_place_is_none(model: str, reader: PictureReader) -> None:
    codec, image = ChatCodec(model), picture()
    for said in (f"w1 {reader.marker} w2", [("user", f"w1 {reader.marker} w2")]):
        ids, _ = picture_prompt(codec, said, image, reader, 200)
        assert reader.refusal(ids, image) is None
        ids, _ = picture_prompt(codec, said, None, reader, 200)
        assert ids.count(reader.pad) == ids.count(reader.start) == 0


def test_a_prompt_that_is_too_long_loses_words_and_never_the_picture(
    model: str, reader: PictureReader
) -> None:
    codec, image = ChatCodec(model), picture()
    words = " ".join(f"w{n % 40}" for n in range(300))
    for limit in (60, 61, len(reader.placed(image)) + 2):
        ids, cut = picture_prompt(codec, words, image, reader, limit)
        assert cut
        assert len(ids) == limit
        assert reader.refusal(ids, image) is None
        assert ids[-1] == codec.encode(words)[-1]
    with pytest.raises(PictureError, match="takes 18 tokens, a prompt may have 19: raise the context length"):
        picture_prompt(codec, words, image, reader, 19)


def test_a_prompt_and_a_picture_that_don_t_belong_together_are_refused(
    model: str, reader: PictureReader
) -> None:
    small, large = picture(0, 16, 16), picture(1)
    assert "4 places for a picture that takes 16" in str(reader.refusal(prompt_of(model, small), large))
    assert "there is none" in str(reader.refusal(prompt_of(model, large), None))
    assert reader.refusal(prompt_of(model, None), None) is None


def test_models_that_read_text_alone_are_told_from_those_that_see(model: str, tmp_path: Path) -> None:
    text = save_memory_model(tmp_path)
    assert PictureReader.of(text) is None
    with pytest.raises(ModelError, match="takes no pictures"):
        PictureReader(text)
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (broken / name).write_bytes((Path(model) / name).read_bytes())
    with pytest.raises(ModelError, match="its image processor can't be loaded"):
        PictureReader(broken).check()


def test_pictures_need_no_torchvision(model: str) -> None:
    code = (
        "import sys; from agentmem.vision.reader import PictureReader;"
        f"PictureReader({model!r}).check(); assert 'torchvision' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
