"""When a client may ask again."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from agentmem.pacing import LONGEST_PAUSE_S, Pace, backoff, retry_after

gaps = st.lists(st.floats(0, 20), min_size=1, max_size=60)


@given(gaps, st.integers(1, 300))
def test_no_minute_has_more_starts_than_allowed(gaps: list[float], per_minute: int) -> None:
    pace, now, starts = Pace(per_minute), 0.0, []
    for gap in gaps:
        now += gap
        starts.append(pace.reserve(now))
        assert starts[-1] >= now
    for i, start in enumerate(starts):
        within = [s for s in starts[i:] if s < start + 60 - 1e-6]
        assert len(within) <= per_minute


@given(gaps)
def test_without_a_limit_nobody_waits_but_in_a_pause(gaps: list[float]) -> None:
    pace, now = Pace(None), 0.0
    for gap in gaps:
        now += gap
        assert pace.reserve(now) == now
    early = pace.reserve(now)
    pace.pause(now + 5)
    pace.pause(now + 1)  # a shorter one doesn't end a longer one
    assert pace.reserve(now) == now + 5
    assert pace.held_until(early) == now + 5
    assert pace.reserve(now + 6) == now + 6


@given(st.integers(1, 200), st.floats(0, 1, exclude_max=True))
def test_pauses_grow_up_to_a_minute_and_are_never_shorter_than_the_server_asks(
    attempt: int, chance: float
) -> None:
    pause = backoff(attempt, None, chance)
    assert 0.5 <= pause <= LONGEST_PAUSE_S
    assert pause <= backoff(attempt + 1, None, chance)
    assert backoff(attempt, 300.0, chance) == 300.0
    assert backoff(attempt, 0.0, chance) == pause


def test_a_servers_wish_is_read_as_a_number_or_a_date() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert retry_after({"retry-after": "7"}) == 7.0
    assert retry_after({"retry-after": " 1.5 "}) == 1.5
    assert retry_after({"retry-after": "-3"}) == 0.0
    assert retry_after({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, noon) == 30.0
    assert retry_after({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, noon) == 0.0
    for said in ("", "soon", "inf", "nan"):
        assert retry_after({"retry-after": said}) is None
    assert retry_after({}) is None
