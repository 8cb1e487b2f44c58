"""Evaluation: trials of a batch are collected, read as often as wanted, and dropped by the caller.

Invariant: evaluation tickets, trials and counters are apart from training's; a group never holds one.
"""

from __future__ import annotations

import time

from agentmem.replay import lua
from agentmem.replay.codec import CodecError
from agentmem.replay.structs import EvalStatus
from agentmem.replay.table import Table, record_fields
from agentmem.trajectory import Trial

_POLL_S = 0.1


class EvalTable(Table):
    """Results of evaluations, by batch."""

    def eval_status(self, batch: str) -> EvalStatus:
        """How far a batch is."""
        key = self.keys("eval:" + batch)
        values = self.server.call(lambda: self.server.client.hmget(key, ["size", "ok", "bad"]))
        size, ok, bad = (int(v or 0) for v in values)
        return EvalStatus(submitted=size, done=ok, failed=bad)

    def eval_results(self, batch: str) -> list[Trial]:
        """The trials committed so far, ordered by ticket id. They stay until `drop_eval`.

        One that can't be read is set aside and counts as failed.
        """
        key = self.keys("eval:" + batch)
        fields: dict[bytes, bytes] = self.server.call(lambda: self.server.client.hgetall(key))
        flat: list[bytes] = []
        for field in sorted(fields):
            if field.startswith(b"t:") and b":" in fields[field]:
                flat += [field[2:], fields[field]]
        members = record_fields(flat)
        trials = []
        for member, payload in zip(
            members, self.read_payloads([(m[0], m[1], m[4]) for m in members]), strict=True
        ):
            try:
                if isinstance(payload, CodecError):
                    raise payload
                trials.append(self.codec.unpack(payload, Trial))
            except CodecError as error:
                self._run(lua.QUARANTINE_EVAL, batch, member[0], str(error))
        return trials

    def take_eval(self, batch: str, block_s: float = 0.0) -> list[Trial] | None:
        """All results once nothing of the batch is queued or running (see `eval_status` for failed ones).

        None if that doesn't happen within `block_s`.
        """
        end = time.monotonic() + block_s
        while True:
            status = self.eval_status(batch)
            if status.complete:
                return self.eval_results(batch)
            left = end - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(left, _POLL_S))

    def drop_eval(self, batch: str) -> int:
        """Free a batch's results and withdraw its tickets that are still alive. Returns the batch's size."""
        return int(self._run(lua.DROP_EVAL, batch))
