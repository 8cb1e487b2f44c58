"""A model that sees on the PyTorch engine: what it samples depends on the picture, and on nothing else's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import torch

from actors.engine.factory import build_engine
from actors.engine.protocol import EngineConfig
from actors.engine.step_engine import StepEngine
from agentmem.failures import ModelError, WeightSyncError
from agentmem.sampling import SampleRequest, Sampling
from agentmem.vision.directory import file_name
from agentmem.vision.picture import Picture
from agentmem.vision.reader import PictureReader
from agentmem.weights.base import Probe
from agentmem.weights.files import FilesSender
from tests.vision.seeing import own_logprobs, picture, prompt_of

SAMPLING = Sampling(max_tokens=12)
NAMES = ("kept", "other", "none", "wide")


@pytest.fixture(scope="module")
def library(model: str) -> Any:
    from transformers import AutoModelForImageTextToText

    return AutoModelForImageTextToText.from_pretrained(model).eval()


@pytest_asyncio.fixture
async def engine(model: str) -> AsyncIterator[StepEngine]:
    made = build_engine(EngineConfig(model=model, kind="torch", max_model_len=200, request_s=60.0), name="e0")
    await made.start()
    yield made
    await made.close()


def request(model: str, name: str, image: Picture | None) -> SampleRequest:
    return SampleRequest(id=name, prompt_ids=prompt_of(model, image), sampling=SAMPLING, image=image)


async def test_pictures_of_one_batch_are_each_seen_as_the_library_sees_them(
    engine: StepEngine, model: str, library: Any
) -> None:
    images = dict(zip(NAMES, (picture(0), picture(1), None, picture(2, 64, 20)), strict=True))
    samples = await engine.sample_many([request(model, name, image) for name, image in images.items()])
    reader = PictureReader(model)
    for sample, (name, image) in zip(samples, images.items(), strict=True):
        prompt = prompt_of(model, image)
        # Where the library would take a sampled token for a picture's place, it can't be asked.
        said = sample.response_ids
        upto = said.index(reader.pad) if reader.pad in said else len(said)
        wanted = own_logprobs(library, reader, (*prompt, *said[:upto]), image)
        assert sample.logprobs[:upto] == pytest.approx(wanted[len(prompt) - 1 :], abs=1e-4), name


async def test_another_picture_gives_other_probabilities(engine: StepEngine, model: str) -> None:
    reader = PictureReader(model)
    ids = prompt_of(model, picture(0))
    probes = Probe(
        sequences=(ids, ids, ids),
        logprobs=((0.0,) * (len(ids) - 1),) * 3,
        pictures=(picture(0), picture(1), None),
    )
    first, second, blind = engine._scores_of(probes)
    behind = ids.index(reader.end)
    assert max(abs(a - b) for a, b in zip(first[behind:], second[behind:], strict=True)) > 1e-3
    assert max(abs(a - b) for a, b in zip(first[behind:], blind[behind:], strict=True)) > 1e-3


@pytest.mark.parametrize(
    ("prompt", "image", "told"),
    [
        (picture(0), picture(0, 16, 16), "16 places for a picture that takes 4"),
        (None, picture(0), "0 places for a picture that takes 16"),
        (picture(0), None, "16 places for a picture, and there is none"),
    ],
    ids=["another size", "no places", "no picture"],
)
async def test_a_request_that_doesn_t_fit_its_picture_is_refused_and_others_go_on(
    engine: StepEngine, model: str, prompt: Picture | None, image: Picture | None, told: str
) -> None:
    bad = SampleRequest(id="bad", prompt_ids=prompt_of(model, prompt), sampling=SAMPLING, image=image)
    with pytest.raises(ModelError, match=told):
        await engine.sample(bad)
    good = await engine.sample(request(model, "good", picture(0)))
    assert len(good.response_ids) == 12


async def test_a_damaged_picture_costs_its_own_request_alone(engine: StepEngine, model: str) -> None:
    whole = picture(5)
    torn = Picture.of_png(whole.png[:200])
    bad = SampleRequest(id="bad", prompt_ids=prompt_of(model, whole), sampling=SAMPLING, image=torn)
    with pytest.raises(ModelError, match="no readable image"):
        await engine.sample(bad)
    assert (await engine.sample(request(model, "good", whole))).id == "good"


async def test_a_response_may_hold_the_token_of_a_picture_s_place(engine: StepEngine, model: str) -> None:
    pad, image = PictureReader(model).pad, picture(0)
    only = Sampling(max_tokens=3, allowed_ids=(pad, 5))
    samples = await engine.sample_many(
        [
            SampleRequest(id=str(n), prompt_ids=prompt_of(model, image), sampling=only, image=image)
            for n in range(16)
        ]
    )
    assert any(pad in sample.response_ids for sample in samples)


async def test_a_model_that_reads_text_alone_refuses_a_picture(tmp_path: Path) -> None:
    from tests.engine import tiny

    tiny.make_model(tmp_path / "text", tied=False)
    engine = build_engine(EngineConfig(model=str(tmp_path / "text"), kind="torch"), name="e0")
    await engine.start()
    try:
        bad = SampleRequest(id="a", prompt_ids=(1, 2), sampling=Sampling(), image=picture())
        with pytest.raises(ModelError, match="it has a picture, and this model reads text alone"):
            await engine.sample(bad)
    finally:
        await engine.close()


async def test_an_engine_that_didn_t_get_the_tower_s_weights_is_found_out(
    engine: StepEngine, model: str, library: Any, tmp_path: Path
) -> None:
    reader = PictureReader(model)
    state = {file_name(name): tensor.clone() for name, tensor in library.state_dict().items()}
    moved = {
        name: tensor + 0.05 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(1))
        if name.startswith("visual.")
        else tensor
        for name, tensor in state.items()
    }
    ids, image = (*prompt_of(model, reader.probe), 9, 10, 11), reader.probe

    def probe(tensors: dict[str, torch.Tensor]) -> Probe:
        import copy

        from agentmem.vision.directory import module_name

        other = copy.deepcopy(library)
        other.load_state_dict({module_name(name): tensor for name, tensor in tensors.items()})
        return Probe(
            sequences=(ids,), logprobs=(tuple(own_logprobs(other, reader, ids, image)),), pictures=(image,)
        )

    sender = FilesSender(tmp_path / "weights")
    with pytest.raises(WeightSyncError, match="probe log-probabilities differ"):
        await engine.update_weights(sender.publish(1, state, engines=["e0"], probe=probe(moved)))
    assert engine.version == 0
    await engine.update_weights(sender.publish(2, moved, engines=["e0"], probe=probe(moved)))
    assert engine.version == 2
