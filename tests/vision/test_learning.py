"""A model that sees on the learner: the same log-probs as the engine, and gradients that reach the tower."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from msgspec.structs import replace

from actors.engine.factory import build_engine
from actors.engine.protocol import EngineConfig
from agentmem.config import AdviceConfig, LearnerConfig, LoraConfig
from agentmem.sampling import Sample, SampleRequest, Sampling
from agentmem.vision.directory import sees
from agentmem.vision.picture import Picture, PictureError
from agentmem.vision.reader import PictureReader
from learner.batching.merge import merge_rows
from learner.batching.tensors import shards
from learner.loss import DeviceBatch
from learner.rank import LearnerRank, blank_of
from learner.row import Row
from learner.settings import RankSettings
from learner.stage1 import example
from tests.learner_group.advised import save_memory_model
from tests.vision.seeing import picture, prompt_of, seen_group

LEARNER = LearnerConfig(lr=3e-4, warmup_updates=0, updates=1000)
ADVICE = AdviceConfig(kl_coef=0.0, length_coef=0.0)
Make = Callable[..., LearnerRank]
TOWER = "model.visual."


@pytest.fixture
def make(model: str, tmp_path: Path) -> Iterator[Make]:
    ranks: list[LearnerRank] = []

    def new(**settings: Any) -> LearnerRank:
        base: dict[str, Any] = {
            "policy": "memory",
            "model": model,
            "learner": LEARNER,
            "advice": ADVICE,
            "weights_dir": str(tmp_path / "weights"),
        }
        ranks.append(LearnerRank(RankSettings(**{**base, **settings}), device=torch.device("cpu")))
        return ranks[-1]

    yield new
    for rank in ranks:
        rank.close()


def row_of(model: str, image: Picture | None, sample: Sample, trial: int, temperature: float = 1.0) -> Row:
    return Row(
        prompt=prompt_of(model, image),
        response=sample.response_ids,
        engine=sample.logprobs,
        versions=sample.versions,
        sampling=Sampling(temperature=temperature),
        advantage=1.0,
        trial=trial,
        image=image,
    )


async def sampled(model: str, images: list[Picture | None], temperature: float) -> list[Sample]:
    engine = build_engine(EngineConfig(model=model, kind="torch", max_model_len=200, request_s=60.0))
    await engine.start()
    try:
        how = Sampling(max_tokens=9, temperature=temperature)
        return await engine.sample_many(
            [
                SampleRequest(id=str(n), prompt_ids=prompt_of(model, image), sampling=how, image=image)
                for n, image in enumerate(images)
            ]
        )
    finally:
        await engine.close()


@pytest.mark.parametrize("strategy", ["sorted", "packed"])
async def test_learner_and_engine_agree_on_every_sampled_token(
    make: Make, model: str, strategy: Literal["sorted", "packed"]
) -> None:
    images = [picture(0), None, picture(1), picture(2, 64, 20), picture(0), picture(3, 16, 40), None]
    samples = await sampled(model, images, 0.8)
    rows = [row_of(model, image, s, n, 0.8) for n, (image, s) in enumerate(zip(images, samples, strict=True))]
    rank = make()
    parts, stats = shards(rows, strategy=strategy, budget=120, reader=rank.reader)
    assert stats.microbatches > 1
    gaps = []
    for mini in parts[0].minibatches:
        for micro in mini.micro:
            batch = DeviceBatch.of(micro, torch.device("cpu"), "token")
            gaps.append((rank.logprobs(batch, rank.model) - batch.engine).abs().max())
    assert max(gaps) < 1e-3


@pytest.mark.parametrize("strategy", ["sorted", "packed"])
def test_words_alone_give_the_same_whether_others_in_the_batch_see(
    make: Make, model: str, strategy: Literal["sorted", "packed"]
) -> None:
    def loss(rows: list[Row]) -> float:
        (part,), _ = shards(rows, strategy=strategy, budget=4096, reader=rank.reader)
        batch = DeviceBatch.of(part.minibatches[0].micro[0], torch.device("cpu"), "token")
        return float(rank.logprobs(batch, rank.model)[(batch.targets == 30)].sum())

    rank = make()
    words = [example((1, 5, 6, 7, 8), (30,)), example((1, 9, 6), (30,))]
    seeing = [example(prompt_of(model, picture(n)), (31, 32)) for n in range(2)]
    seeing = [
        Row(**{f: getattr(row, f) for f in Row.__slots__ if f != "image"}, image=picture(n))
        for n, row in enumerate(seeing)
    ]
    assert loss(words) == pytest.approx(loss([*words, *seeing]), abs=1e-4)


def test_rows_with_different_pictures_never_share_a_sequence(model: str) -> None:
    prompt = prompt_of(model, picture(0))
    rows = [
        Row(prompt, (9, 10), (-1.0, -1.0), (0, 0), Sampling(), 1.0, n, image=image)
        for n, image in enumerate([picture(0), picture(1), picture(0), None])
    ]
    merged = merge_rows(rows)
    assert sorted(sequence.rows for sequence in merged) == [(0, 2), (1,), (3,)]
    assert {sequence.rows: sequence.image for sequence in merged}[(1,)] == picture(1)


def weights(rank: LearnerRank) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in rank.model.model.named_parameters()}


def test_an_update_moves_the_tower_and_the_projector_where_there_is_something_to_see(
    make: Make, model: str
) -> None:
    for image in (picture(0), None):
        rank = make()
        before = weights(rank)
        result = rank.update_groups([seen_group(model, [False] * 2, [True, False] * 3 + [True], image)], 0)
        assert result.applied
        after = weights(rank)
        moved = {name for name in before if not torch.equal(before[name], after[name])}
        tower = {name for name in before if name.startswith(TOWER)}
        assert (tower <= moved) is (image is not None)
        assert bool(tower & moved) is (image is not None)
        assert moved - tower


def gradient(rank: LearnerRank, model: str, image: Picture) -> dict[str, torch.Tensor]:
    """Of one fixed hint's likelihood, by parameter."""
    row = example(prompt_of(model, image), (9, 10, 11))
    row = Row(**{f: getattr(row, f) for f in Row.__slots__ if f != "image"}, image=image)
    (part,), _ = shards([row], strategy="sorted", budget=4096, reader=rank.reader)
    batch = DeviceBatch.of(part.minibatches[0].micro[0], torch.device("cpu"), "token")
    rank.model.zero_grad()
    logits, _ = rank.model(batch.ids, batch.index, batch.positions, batch.value_at, **batch.pictures)
    torch.log_softmax(logits, -1).gather(-1, batch.targets[:, None]).sum().backward()
    return {name: p.grad.clone() for name, p in rank.model.model.named_parameters() if p.grad is not None}


def test_the_gradient_depends_on_the_picture(make: Make, model: str) -> None:
    rank = make()
    first, again, other = (gradient(rank, model, picture(n)) for n in (0, 0, 1))
    projector = [name for name in first if name.startswith(f"{TOWER}merger")]
    assert projector
    for name in projector:
        assert torch.allclose(first[name], again[name], atol=1e-6)
        assert not torch.allclose(first[name], other[name], rtol=1e-2)


def test_a_picture_changes_what_is_learnt_of_the_same_words(make: Make, model: str) -> None:
    """What is rewarded with one picture and punished with another is told apart by the pictures alone."""
    rank = make(learner=LEARNER.model_copy(update={"lr": 2e-3}))
    first = seen_group(model, [False] * 2, [True] * 7, picture(0))
    second = seen_group(model, [True] * 2, [False] * 7, picture(1), group=1)
    for version in range(12):
        rank.update_groups([first, second], version)
    chance = {}
    for number, trials in enumerate((first, second)):
        turn = trials[-1].advice[0]
        row = Row(
            turn.prompt_ids, (turn.response_ids or ())[:1], (0.0,), (0,), Sampling(), 0.0, 0, image=turn.image
        )
        (part,), _ = shards([row], strategy="sorted", budget=4096, reader=rank.reader)
        chance[number] = rank.likelihood(part)[0]
    assert chance[0] > chance[1] + 1.0


def test_what_is_learnt_reaches_an_engine_and_a_final_model(make: Make, model: str, tmp_path: Path) -> None:
    import asyncio

    rank = make()
    rank.update_groups([seen_group(model, [False] * 2, [True] * 7, picture(0))], 0)
    update = rank.outlet.publish(1, ["e0"])
    assert update is not None
    assert {meta.name.split(".")[0] for meta in update.tensors} == {"visual", "model", "lm_head"}
    assert update.probe is not None
    assert update.probe.pictures[-1] is not None
    rank.final_model(str(tmp_path / "final"))
    assert sees(tmp_path / "final")

    async def scores() -> list[list[list[float]]]:
        ids = (prompt_of(model, picture(7)),)
        found = []
        for folder in (model, str(tmp_path / "final")):
            engine = build_engine(EngineConfig(model=folder, kind="torch", max_model_len=200), name="e0")
            await engine.start()
            if folder == model:
                assert (await engine.update_weights(update)).applied
            found.append(engine._core.score(ids, None, (picture(7),)))
            await engine.close()
        return found

    pushed, final = asyncio.run(scores())
    assert pushed[0] == pytest.approx(final[0], abs=1e-5)


def test_with_lora_the_tower_is_merged_into_what_is_pushed(make: Make, model: str) -> None:
    rank = make(lora=LoraConfig(rank=4), learner=LEARNER.model_copy(update={"lr": 1e-2}))
    before = {u.name: u.make().detach().clone() for u in _units(rank) if u.name.startswith("visual.")}
    rank.update_groups([seen_group(model, [False] * 2, [True] * 7, picture(0))], 0)
    after = {u.name: u.make() for u in _units(rank) if u.name.startswith("visual.")}
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def _units(rank: LearnerRank) -> list[Any]:
    from learner import export

    return export.units(rank.model)


def test_a_checkpoint_goes_on_with_the_same_tower(make: Make, model: str, tmp_path: Path) -> None:
    group = [seen_group(model, [False] * 2, [True] * 7, picture(0))]
    one = make()
    one.update_groups(group, 0)
    one.save_checkpoint(str(tmp_path / "saved"), 1, {})
    one.update_groups(group, 1)
    from learner import checkpoint

    found = checkpoint.newest(tmp_path / "saved")
    assert found is not None
    two = make()
    two.load_checkpoint(str(found.path))
    two.update_groups(group, 1)
    for name, tensor in weights(one).items():
        assert torch.allclose(tensor, weights(two)[name], atol=1e-6), name


def test_a_policy_that_reads_text_alone_refuses_to_learn_from_a_picture(
    make: Make, model: str, tmp_path: Path
) -> None:
    rank = make(model=save_memory_model(tmp_path / "text"))
    group = seen_group(model, [False] * 2, [True] * 7, picture(0))
    blind = [replace(t, advice=tuple(replace(a, prompt_ids=(1, 5)) for a in t.advice)) for t in group]
    with pytest.raises(PictureError, match="the policy's model reads text alone"):
        rank.update_groups([[_with_own_tokens(t) for t in blind]], 0)


def _with_own_tokens(trial: Any) -> Any:
    from tests.learner_group.advised import TOKENS

    (turn,) = trial.advice
    first = TOKENS.generate if len(turn.response_ids) > 1 else TOKENS.abstain
    return replace(trial, advice=(replace(turn, response_ids=(first, *turn.response_ids[1:])),))


def test_where_all_ranks_must_take_part_a_batch_without_pictures_looks_at_a_blank_one(
    make: Make, model: str
) -> None:
    rank = make()
    assert isinstance(rank.reader, PictureReader)
    (part,), _ = shards([example((1, 5, 6, 7, 8), (30,))], strategy="sorted", budget=4096, reader=rank.reader)
    batch = DeviceBatch.of(part.minibatches[0].micro[0], torch.device("cpu"), "token")
    alone, _ = rank.model(batch.ids, batch.index, batch.positions, batch.value_at)
    rank.model.blank = blank_of(rank.reader)
    beside, _ = rank.model(batch.ids, batch.index, batch.positions, batch.value_at)
    assert torch.equal(alone, beside)
    beside.sum().backward()
    tower = [p.grad for name, p in rank.model.model.named_parameters() if name.startswith(TOWER)]
    assert all(grad is not None and not grad.any() for grad in tower)
