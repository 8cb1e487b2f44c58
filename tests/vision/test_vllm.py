"""What the vLLM adapter hands on of a picture. Its engine can't see here: vLLM's module needs torchvision."""

from __future__ import annotations

import pytest
import torch

from actors.engine.protocol import EngineConfig
from actors.engine.vllm_engine import VllmCore
from agentmem.failures import ConfigError
from agentmem.vision.reader import PictureReader
from tests.vision.seeing import picture, prompt_of


def test_a_picture_is_handed_on_with_its_place_and_its_name(model: str) -> None:
    core, image = VllmCore(EngineConfig(model=model)), picture(0, 64, 20)
    core._reader = reader = PictureReader(model)
    prompt = prompt_of(model, image)
    feature = core._feature(prompt, image, None)
    seen = reader.read(image)
    assert (feature.modality, feature.identifier) == ("image", image.sha256)
    place = feature.mm_position
    assert prompt[place.offset : place.offset + place.length] == (reader.pad,) * reader.tokens(seen.grid)
    assert place.length == prompt.count(reader.pad)
    given = feature.data.get_data()
    assert torch.equal(given["pixel_values"], torch.from_numpy(seen.patches))
    assert given["image_grid_thw"].flatten().tolist() == list(seen.grid)


def test_without_torchvision_it_refuses_to_start_in_one_line(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.engine.vllm_engine.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs torchvision for .*: engine kind `torch` does without"):
        VllmCore(EngineConfig(model=model, max_model_len=200)).start()
