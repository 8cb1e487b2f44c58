"""Stage 1 by sight: banks whose records have pictures."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch
from msgspec.structs import replace
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.chat import ChatCodec, DecisionTokens
from agentmem.config.advice import AdviceConfig, Stage1Config
from agentmem.failures import ConfigError
from agentmem.memory.bank.pictures import bank_pictures
from agentmem.memory.bank.records import BankRecord, read_bank
from agentmem.vision.picture import picture_of
from agentmem.vision.reader import PictureReader
from learner.rank import LearnerRank
from learner.settings import RankSettings
from learner.stage1 import encode, fingerprint, settings_of
from tests.learner_group.advised import save_memory_model
from tests.memory.banks import record
from tests.vision.seeing import picture, pixels

CFG = Stage1Config(lr=2e-3, epochs=12, batch=4, max_prompt=48, max_target=8)


def write(path: Path, records: list[BankRecord]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in records))
    return path


def pictured(folder: Path, count: int = 3) -> Path:
    """A bank of records that differ by their pictures alone, and in what is to be said."""
    (folder / "shots").mkdir(parents=True)
    records = []
    for n in range(count):
        pixels(n).save(folder / "shots" / f"{n}.png")
        records.append(
            replace(record(), id=f"r{n}", task_id=n, q="w1", o="w2", m=f"w{10 + n}", image=f"shots/{n}.png")
        )
    return write(folder / "bank.jsonl", records)


def test_a_record_without_a_picture_is_written_as_ever(tmp_path: Path) -> None:
    plain = record()
    assert b"image" not in msgspec.json.encode(plain)
    assert bank_pictures(write(tmp_path / "bank.jsonl", [plain])) == {}


def test_pictures_are_found_beside_the_bank(tmp_path: Path) -> None:
    found = bank_pictures(pictured(tmp_path))
    assert found == {f"r{n}": picture_of(pixels(n)) for n in range(3)}


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("shots/none.png", "line 2, field image: image .*shots/none.png: No such file or directory"),
        ("bank.jsonl", "line 2, field image: .*no readable image"),
        ("/etc/hostname", "line 2, field image: /etc/hostname: must be relative to the bank's folder"),
    ],
)
def test_a_picture_that_is_missing_names_the_line(tmp_path: Path, image: str, told: str) -> None:
    bank = pictured(tmp_path)
    records = read_bank(bank)
    records[1] = replace(records[1], image=image)
    with pytest.raises(ConfigError, match=told):
        bank_pictures(write(bank, records))
    shown = CliRunner().invoke(app, ["bank", "check", str(bank)])
    assert shown.exit_code == 1
    assert "line 2, field image" in shown.output


def test_records_that_differ_by_their_pictures_alone_aren_t_duplicates() -> None:
    first, second = (replace(record(), image=f"{n}.png") for n in range(2))
    assert first.content != second.content


def test_a_divided_bank_still_finds_its_pictures(tmp_path: Path) -> None:
    bank = pictured(tmp_path / "here", 6)
    parts = [tmp_path / "there" / f"{name}.jsonl" for name in ("train", "held")]
    parts[0].parent.mkdir()
    shown = CliRunner().invoke(
        app, ["bank", "split", str(bank), "--train", str(parts[0]), "--held-out", str(parts[1])]
    )
    assert shown.exit_code == 0, shown.output
    assert len(bank_pictures(parts[0])) + len(bank_pictures(parts[1])) == 6


def test_a_policy_learns_by_heart_what_the_pictures_alone_tell_apart(model: str, tmp_path: Path) -> None:
    bank = pictured(tmp_path)
    pictures = bank_pictures(bank)
    records = read_bank(bank)
    reader = PictureReader(model)
    encoded = encode(
        [(f"{r.q} {r.o}", r.m) for r in records],
        ChatCodec(model),
        DecisionTokens.of(model),
        CFG,
        pictures=[pictures[r.id] for r in records],
        reader=reader,
    )
    assert [row.image for row in encoded.rows] == list(pictures.values())
    settings = settings_of(
        RankSettings(policy="memory", model=model, advice=AdviceConfig(stage1=CFG)), len(encoded.rows)
    )
    rank = LearnerRank(settings, device=torch.device("cpu"))
    tower = rank.model.model.model.visual.patch_embed.proj.weight
    before = tower.detach().clone()

    def loss() -> float:
        (part,) = rank.prepare_rows(encoded.rows)
        total, tokens = rank.likelihood(part)
        return -total / tokens

    start = loss()
    for step in range(60):
        rank.updates_done = 2  # at the schedule's full learning rate
        rank.update_groups([], step, examples=encoded.rows)
    # Without the pictures the first word of three couldn't be known: log(3)/2 a token would be left.
    assert loss() < 0.3 < start
    assert not torch.equal(before, tower)
    rank.close()


def test_other_pictures_are_another_training(model: str) -> None:
    codec, tokens, reader = ChatCodec(model), DecisionTokens.of(model), PictureReader(model)
    rows = [
        encode([("w1", "w2")], codec, tokens, CFG, pictures=[image], reader=reader).rows
        for image in (picture(0), picture(1))
    ]
    assert fingerprint(rows[0], CFG, 0) != fingerprint(rows[1], CFG, 0)


def test_a_bank_with_pictures_needs_a_model_that_sees(tmp_path: Path) -> None:
    blind = save_memory_model(tmp_path)
    with pytest.raises(
        ConfigError, match="record 1: it has a picture, but the memory policy's model reads text"
    ):
        encode(
            [("w1", "w2"), ("w1", "w3")],
            ChatCodec(blind),
            DecisionTokens.of(blind),
            CFG,
            pictures=[None, picture(0)],
        )
