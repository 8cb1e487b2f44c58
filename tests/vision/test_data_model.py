"""A picture in an advice turn: on the wire, in Redis, and what doesn't change where there is none."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from msgspec.structs import replace

from agentmem.replay.codec import Codec
from agentmem.sampling import SampleRequest, Sampling
from agentmem.trajectory import SchemaError, Turn, TurnKind, decode_trial, encode_trial
from agentmem.trajectory.codec import PICTURE_VERSION, SCHEMA_VERSION
from tests.learner_group.advised import advice, advised
from tests.vision.seeing import picture


def version(data: bytes) -> int:
    return int(msgspec.msgpack.decode(data)[0])


def test_a_trial_without_pictures_is_written_as_ever() -> None:
    data = encode_trial(advised("generate", True))
    assert version(data) == SCHEMA_VERSION == 1
    # Written by the program before it knew pictures.
    assert hashlib.sha256(data).hexdigest() == GOLDEN
    request = SampleRequest(id="a", prompt_ids=(1, 2), sampling=Sampling())
    assert set(msgspec.msgpack.decode(msgspec.msgpack.encode(request))) == {"id", "prompt_ids", "sampling"}


GOLDEN = "886f6d105a2b140e71101b6c6ad2bc26848f532aec82c8c53241af15e7e19a93"


def test_a_picture_comes_back_byte_for_byte_and_says_so_in_front() -> None:
    turn = replace(advice("free", generate=True), image=picture(3))
    trial = advised("free", True, turn)
    data = encode_trial(trial)
    assert version(data) == PICTURE_VERSION == 2
    assert decode_trial(data) == trial
    assert decode_trial(data).advice[0].image == picture(3)
    packed = Codec().pack(trial)
    assert Codec().unpack(packed, type(trial)) == trial


def test_a_later_version_is_refused_by_its_number() -> None:
    data = encode_trial(advised("generate", True))
    later = msgspec.msgpack.encode((3, msgspec.msgpack.decode(data)[1]))
    with pytest.raises(SchemaError, match="schema version 3: this program reads versions 1 to 2"):
        decode_trial(later)


def test_only_advice_has_a_picture() -> None:
    with pytest.raises(ValueError, match="only advice is asked with one"):
        Turn(kind=TurnKind.ACT, policy="agent", image=picture())


def test_a_picture_beyond_its_limits_is_refused_by_the_reader() -> None:
    trial = advised("generate", True, replace(advice("generate"), image=picture()))
    told = msgspec.msgpack.decode(encode_trial(trial))
    told[1]["advice"][0]["image"]["png"] = b"no picture at all, but long enough"
    with pytest.raises(SchemaError, match="aren't a PNG"):
        decode_trial(msgspec.msgpack.encode(told))
