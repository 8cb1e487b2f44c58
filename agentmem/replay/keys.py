"""Where things are: every key of a run starts with one prefix, which is also its cluster hash tag.

| key | type | holds |
|---|---|---|
| `train`, `again`, `eval` | stream | new tickets, tickets queued again, evaluation tickets |
| `entry` | hash | live ticket -> stream letter, entry id, group or batch |
| `kills`, `retries` | hash | live ticket -> how often its worker died, how often it was retried |
| `p:<ticket>` | hash | finished episodes of a running trial |
| `d:<ticket>[:i]` | string | a stored trial, chunked above 1 MB |
| `g:<group>` | hash | size, sequence number, stored and failed members, draws and priority for replay |
| `eval:<batch>` | hash | the same of an evaluation |
| `open`, `ready`, `taken`, `held`, `replay` | set, zsets | where a group is; a group is in exactly one |
| `taker` | hash | taken group -> its learner |
| `done` | hash | consumed group -> outcome, so that its tickets are never taken for new ones |
| `n`, `drops`, `expired` | hash | totals of what is gone; drops by reason; expired by what they were |
| `dead` | list | dead letters |
| `bad`, `bad:<ticket>:<i>` | list, strings | payloads that couldn't be read |
| `tips` | zset | books of tips `<namespace>:<task>`, by their latest write |
| `tips:<namespace>` | hash | totals of its books |
| `tip:<book>`, `tiplog:<book>` | hash, list | its version, key width and bytes; its entries, oldest first |
| `tiphas:<book>`, `tipsrc:<book>` | set, zset | digests of its entries; the newest sources |
| `s:<name>` | string | a large payload within the transaction that stores it |
| `blocked`, `space`, `starving`, `wake` | | who waits for bytes, who waits for groups, and their signals |
| `wish`, `status` | hash | sizes that somebody wishes for, and configured ones; the driver's last report |
| `cursors`, `meta` | hash | resume cursors and the end of stream; schema and recipe |
"""

from __future__ import annotations

from agentmem.failures import ConfigError


class Keys:
    """The keys of one run. `{run}` in braces makes a cluster keep them in one slot."""

    def __init__(self, run: str) -> None:
        if not run or any(c in "{}: \n" for c in run):
            raise ConfigError(f"run name {run!r}: must not be empty or hold braces, colons or spaces")
        self.prefix = "agentmem:{" + run + "}:"

    def __call__(self, name: str) -> str:
        return self.prefix + name

    def payload(self, ticket: str, chunks: int) -> list[str]:
        """The keys of a stored trial, in order."""
        if chunks == 1:
            return [f"{self.prefix}d:{ticket}"]
        return [f"{self.prefix}d:{ticket}:{i}" for i in range(chunks)]


PATTERN = "agentmem:{*}:meta"
"""Of the keys that every run has exactly one of."""


def run_of(key: str) -> str:
    """The run whose key it is."""
    return key.removeprefix("agentmem:{").partition("}:")[0]
