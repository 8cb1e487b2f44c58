"""Reading a bank: strict, with the line and the field of every fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentmem.failures import ConfigError
from agentmem.memory.bank.records import BankRecord, Kind, Tokens, parse, read_bank, read_records, seed_of
from agentmem.trajectory import Split
from tests.memory.banks import record

text = st.text(min_size=1).filter(str.strip)
counts = st.none() | st.integers(0, 10**9)


@st.composite
def records(draw: st.DrawFn) -> BankRecord:
    sources = tuple(draw(st.lists(text, min_size=1, max_size=4)))
    successes = draw(st.integers(0, len(sources)))
    return BankRecord(
        id=draw(text),
        domain=draw(text),
        task_id=draw(st.integers(0, 2**53) | st.text()),
        seed=draw(st.none() | st.integers(0, 2**53)),
        split=draw(st.sampled_from(Split)),
        q=draw(text),
        o=draw(st.text()),
        m=draw(text),
        sources=sources,
        successes=successes,
        failures=len(sources) - successes,
        writer=draw(text),
        prompt_version=draw(text),
        tokens=Tokens(prompt=draw(counts), completion=draw(counts)),
        cut=draw(st.booleans()),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(records(), max_size=5, unique_by=lambda r: r.id))
def test_what_is_written_is_read(written: list[BankRecord]) -> None:
    found, faults = parse(msgspec.json.encode(r) for r in written)
    assert faults == []
    assert found == list(enumerate(written, start=1))


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("id", "", "expected `str` of length >= 1"),
        ("domain", 3, "expected `str`, got `int`"),
        ("task_id", None, "expected `int | str`, got `null`"),
        ("seed", "7", "expected `int | null`, got `str`"),
        ("split", "test", "invalid enum value 'test'"),
        ("q", "  ", "holds blanks only"),
        ("m", "", "expected `str` of length >= 1"),
        ("m", "\n", "holds blanks only"),
        ("sources", [], "expected `array` of length >= 1"),
        ("sources", ["t0:0"], "are 1, but 1 successes and 1 failures are told of"),
        ("successes", -1, "expected `int` >= 0"),
        ("tokens", {"prompt": 1.5, "completion": 1}, r"got `float` - at `\$\.prompt`"),
        ("tokens", {"prompt": 1}, "missing required field `completion`"),
        ("cut", 1, "expected `bool`, got `int`"),
        ("hint", "x", "is unknown; allowed are id, domain"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(field: str, value: Any, told: str, tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    wrong = msgspec.to_builtins(record("b")) | {field: value}
    bank.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in (record(), wrong)))
    with pytest.raises(ConfigError, match=rf"bank\.jsonl, line 2, field {field}: .*{told}"):
        read_bank(bank)


def test_all_faults_of_all_lines_are_found(tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    first = msgspec.to_builtins(record()) | {"m": 3, "seed": 1.5}
    del first["writer"]
    lines = [msgspec.json.encode(first), b"", b"{", b"[]", b"\xff", msgspec.json.encode(record("b"))]
    bank.write_bytes(b"\n".join([*lines, msgspec.json.encode(record("b")), b'{"id": "to']))  # torn
    found, faults = read_records(bank)
    assert [(number, r.id) for number, r in found] == [(6, "b")]
    told = [str(fault) for fault in faults]
    assert told[:4] == [
        "line 1, field seed: expected `int | null`, got `float`",
        "line 1, field m: expected `str`, got `int`",
        "line 1, field writer: is missing",
        "line 2: is empty",
    ]
    assert [line.partition(":")[0] for line in told[4:]] == [
        "line 3",
        "line 4",
        "line 5",
        "line 7, field id",
        "line 8",
    ]
    assert "'b' stands in line 6, too" in told[-2]
    assert "is torn" in told[-1]
    with pytest.raises(ConfigError, match=r"line 1, field seed: .* \(8 more: agentmem bank check"):
        read_bank(bank)


def test_a_bank_that_is_not_there_or_empty_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.jsonl can't be read: No such file"):
        read_bank(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(ConfigError, match="holds no record"):
        read_bank(tmp_path / "empty.jsonl")


def test_a_record_knows_what_it_was_written_from() -> None:
    def kind(successes: int, failures: int) -> Kind:
        sources = tuple("abcd"[: successes + failures])
        return record(successes=successes, failures=failures, sources=sources).kind

    assert [kind(1, 0), kind(0, 1), kind(1, 1)] == [Kind.SUCCESS, Kind.FAILURE, Kind.PAIR]
    assert {kind(2, 0), kind(0, 2), kind(2, 1), kind(1, 2)} == {Kind.SEVERAL}


def test_a_seed_is_read_from_an_instance_that_has_one() -> None:
    assert [seed_of(i) for i in ("click-test/12", "a/b/0", 7, "7", "a/x", "/3", "a/")] == [12, 0, *[None] * 5]
