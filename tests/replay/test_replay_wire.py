"""Large replies without copies: right whatever the pieces are in which they come."""

import random

import pytest

from agentmem.replay.wire import BulkReader, ReplyError, packed
from tests.replay.makers import make_group, make_trial, played


class Pieces:
    """A socket that gives its data in pieces of random size."""

    def __init__(self, data: bytes, rng: random.Random, most: int) -> None:
        self.data, self.rng, self.most = data, rng, most

    def recv_into(self, room: memoryview, size: int) -> int:
        n = min(len(self.data), size, len(room), self.rng.randint(1, self.most))
        room[:n] = self.data[:n]
        self.data = self.data[n:]
        return n


def reply(value: bytes | None) -> bytes:
    return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


@pytest.mark.parametrize("most", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("guess", [0, 100, 10_000_000])
def test_values_come_out_as_they_went_in(most, guess):
    rng = random.Random(most + guess)
    reader = BulkReader()
    batches = [
        [rng.choice([None, rng.randbytes(rng.choice([0, 1, 30, 5000]))]) for _ in range(rng.randint(1, 8))]
        for _ in range(20)
    ]
    if most >= 1000:
        batches.append([rng.randbytes(3_000_000), rng.randbytes(10), None, rng.randbytes(2_500_000)])
    socket = Pieces(b"".join(reply(v) for batch in batches for v in batch), rng, most)
    for batch in batches:  # what was received of the next batch is kept for it
        found = reader.read(socket, len(batch), guess)
        assert [None if v is None else bytes(v) for v in found] == batch


@pytest.mark.parametrize("data", [b"-LOADING busy\r\n", b":3\r\n", b"$x\r\n", b"*1\r\n$1\r\na\r\n"])
def test_another_reply_than_a_bulk_is_an_error(data):
    with pytest.raises(ReplyError):
        BulkReader().read(Pieces(data, random.Random(0), 100), 1, 0)


def test_a_connection_that_closes_in_mid_reply_is_an_error():
    with pytest.raises(ConnectionError):
        BulkReader().read(Pieces(b"$100\r\nabc", random.Random(0), 100), 1, 100)


def test_a_packed_command_is_the_protocols():
    large = b"y" * 20_000
    wire = b"".join(bytes(p) for p in packed(("SET", "k", memoryview(large), 7)))
    assert wire == b"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n" + large + b"\r\n$1\r\n7\r\n"


def test_payloads_are_read_also_when_the_connection_is_lost_in_between(open_buffer):
    buffer = open_buffer(compression=0)
    buffer.submit(make_group("a", 8))
    claims = buffer.claim("w", 8)
    buffer.commit(played(claims, text="z" * 400_000))
    read, calls = BulkReader.read, []

    def losing(self, socket, count, expected):
        calls.append(count)
        if len(calls) == 3:
            socket.close()
            raise ConnectionResetError
        return read(self, socket, count, expected)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BulkReader, "read", losing)
        (group,) = buffer.take_groups(1)
    assert group.trials == tuple(make_trial(c.ticket, text="z" * 400_000) for c in claims)
    assert len(calls) > 4
    assert buffer.counters().drops == {}


def test_a_wrong_type_under_a_payloads_key_is_damage_not_the_end_of_the_run(buffer):
    buffer.submit(make_group("a", 1) + make_group("b", 1))
    buffer.commit(played(buffer.claim("w", 2)))
    key = buffer.keys.payload("a-0", 1)[0]
    buffer.server.client.delete(key)
    buffer.server.client.rpush(key, "x")
    assert [g.id for g in buffer.take_groups(2)] == ["b"]
    assert buffer.counters().drops["corrupt"] == 1
    assert buffer.counters().identity_holds


def test_two_generators_of_one_thread_do_not_disturb_each_other(buffer):
    client = buffer.server.client
    for n in range(6):
        client.set(f"{buffer.keys.prefix}x{n}", bytes([n]) * 1000)
    names = [[f"{buffer.keys.prefix}x{n}"] for n in range(6)]
    one, two = buffer.server.fetch(names[:3], [1000] * 3), buffer.server.fetch(names[3:], [1000] * 3)
    for n in range(3):
        first, second = next(one)[0], next(two)[0]
        assert bytes(first) == bytes([n]) * 1000
        assert bytes(second) == bytes([n + 3]) * 1000
