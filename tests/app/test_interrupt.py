"""What a run may still do between a signal and its end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentmem.app.live import interrupt
from agentmem.app.live.interrupt import InterruptFlag, saved_by_s
from agentmem.failures import ConfigError

JOB = {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock on."""
    now = [1000.0]
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def test_a_terminal_waits_for_seconds_and_a_job_for_what_its_stop_allows() -> None:
    assert saved_by_s({}) == 9.0
    assert saved_by_s({"RAY_JOB_STOP_WAIT_TIME_S": "60"}) == pytest.approx(54)
    assert saved_by_s({**JOB, "RAY_JOB_STOP_WAIT_TIME_S": "600"}) == pytest.approx(540)


def test_a_job_that_asked_for_no_time_has_rays_three_seconds() -> None:
    assert saved_by_s(JOB) == pytest.approx(2.7)


def test_a_stop_time_that_is_no_number_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^RAY_JOB_STOP_WAIT_TIME_S is 'soon': whole seconds are needed$"):
        saved_by_s({"RAY_JOB_STOP_WAIT_TIME_S": "soon"})


def test_an_update_may_go_on_as_long_as_the_checkpoint_still_fits(
    later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_JOB_STOP_WAIT_TIME_S", "100")
    flag = InterruptFlag()
    flag.request()
    later(84)
    assert flag.may_finish()
    later(2)
    assert not flag.may_finish()
    assert flag.save_s() == pytest.approx(4)
    slow = InterruptFlag()
    slow.save_took(20)
    slow.save_took(3)
    slow.request()
    later(49)
    assert slow.may_finish()
    later(2)
    assert not slow.may_finish()
    assert slow.save_s() == pytest.approx(39)


def test_the_time_of_a_ctrl_c_is_four_seconds_for_an_update_and_five_for_a_checkpoint(
    later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_JOB_STOP_WAIT_TIME_S", raising=False)
    flag = InterruptFlag()
    assert flag.may_finish()
    flag.request()
    later(3.9)
    assert flag.may_finish()
    later(0.2)
    assert not flag.may_finish()
    assert flag.save_s() == pytest.approx(4.9)
    later(10)
    assert flag.save_s() == 0.0
