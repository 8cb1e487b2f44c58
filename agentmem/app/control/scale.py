"""`agentmem scale RUN agents=8 engines.agent=4`: wish for numbers of parts, and follow until they are there.

The wish goes through the run's replay server; the driver does what it takes (`agentmem/app/live/scaler.py`).
A kind that a wish doesn't name stays as it is; `auto` takes a wish back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from agentmem.app.control.reading import Reading, StoppedError, read
from agentmem.failures import ConfigError, ResourceError, StalledError
from agentmem.replay import ReplayBuffer

AUTO = "auto"
MOST = 100_000
"""Nobody means more: a slip of the finger would be a lot of machines."""
ALIASES = {"memory": "generators", "env_workers": "env-workers"}
LOOK_S = 0.5


def parse(assignments: Sequence[str]) -> dict[str, int | None]:
    """`["agents=8", "engines.agent=auto"]` -> {"agents": 8, "engines.agent": None}. Raises ConfigError."""
    found: dict[str, int | None] = {}
    for assignment in assignments:
        name, sep, text = assignment.partition("=")
        kind = ALIASES.get(name.strip(), name.strip())
        if not sep or not kind:
            raise ConfigError(f"{assignment}: write it as kind=number, for example agents=8")
        if kind in found:
            raise ConfigError(f"{assignment}: {kind} is named twice")
        if text.strip() == AUTO:
            found[kind] = None
        elif text.strip().isascii() and text.strip().isdecimal() and 1 <= int(text) <= MOST:
            found[kind] = int(text)
        else:
            raise ConfigError(f"{assignment}: a number from 1 to {MOST}, or '{AUTO}', is needed")
    return found


def check(reading: Reading, wanted: dict[str, int | None]) -> None:
    """Refuse what the run doesn't have."""
    if reading.stopped:
        raise StoppedError(f"run {reading.status.run} doesn't go on: {reading.stopped}")
    kinds = reading.status.kinds
    if not kinds:
        raise StoppedError(f"run {reading.status.run} is still starting ({reading.status.phase}): try again")
    for kind in wanted:
        if kind not in kinds:
            raise ConfigError(f"{kind}: this run has no such parts; it has {', '.join(sorted(kinds))}")


def scale(
    buffer: ReplayBuffer,
    wanted: dict[str, int | None],
    *,
    wait: bool,
    timeout_s: float,
    say: Callable[[str], object],
    pause: Callable[[float], object] = time.sleep,
) -> None:
    """Make the wish, say what was before and what is desired, and follow until it is reached.

    Raises ResourceError for a number that can't be had, StalledError when it isn't reached in time (the wish
    stands), StoppedError when the run doesn't go on.
    """
    before = read(buffer)
    check(before, wanted)
    sequence = buffer.wish(wanted)
    for kind, number in wanted.items():
        now = before.status.kinds[kind]
        target = "as configured, or as the autoscaler decides" if number is None else str(number)
        say(f"{kind}: {now.running} running, {now.desired} desired before; wished for: {target}")
    if wait:
        _follow(buffer, wanted, sequence, timeout_s, say, pause)


def _follow(
    buffer: ReplayBuffer,
    wanted: dict[str, int | None],
    sequence: int,
    timeout_s: float,
    say: Callable[[str], object],
    pause: Callable[[float], object],
) -> None:
    end, said, refused = time.monotonic() + timeout_s, "", {}
    while True:
        seen = read(buffer)
        if seen.stopped:
            raise StoppedError(f"run {buffer.run} doesn't go on: {seen.stopped}")
        kinds = {kind: seen.status.kinds[kind] for kind in wanted if kind in seen.status.kinds}
        text = "  ".join(
            f"{kind} {k.running}/{k.desired}" + (f" ({k.leaving} leaving)" if k.leaving else "")
            for kind, k in kinds.items()
        )
        notes = [f"{kind}: {k.note}" for kind, k in kinds.items() if k.note and k.changing]
        text = "; ".join([text, *notes])
        heard = seen.status.sequence >= sequence
        if text != said and heard:
            say(text)
            said = text
        if heard:
            if seen.status.sequence > sequence:
                say("another wish came after this one")
                return
            refused = {kind: k.note for kind, k in kinds.items() if k.refused}
            if all(_settled(k.desired, k.reached, k.refused, wanted[kind]) for kind, k in kinds.items()):
                break
        if time.monotonic() > end:
            raise StalledError(f"not reached within {timeout_s:g} s, the wish stands: {text}")
        pause(LOOK_S)
    if refused:
        raise ResourceError("; ".join(f"{kind}: {note}" for kind, note in refused.items()))
    say("reached")


def _settled(desired: int, reached: bool, refused: bool, wanted: int | None) -> bool:
    return refused or (reached and (wanted is None or desired == wanted))
