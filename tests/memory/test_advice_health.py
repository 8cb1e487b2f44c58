"""Whether a memory policy still decides: shares by difficulty, and when somebody is told."""

from __future__ import annotations

import pytest

from agentmem.app.deploy.rules import AlertSettings
from agentmem.memory.advice_health import COLLAPSED, LEAST, AbstentionAlarm, Choice, health_of


def test_abstentions_are_told_apart_by_whether_the_agent_needs_a_hint() -> None:
    easy = [Choice(abstains=n < 3, alone=1.0 if n else 0.5, p_generate=0.05) for n in range(4)]
    hard = [Choice(abstains=n < 1, alone=0.0, p_generate=1.0) for n in range(2)]
    unknown = [Choice(abstains=True)]
    found = health_of([*easy, *hard, *unknown])
    assert (found.asked, found.easy, found.hard) == (7, 4, 2)
    assert (found.abstains, found.abstains_easy, found.abstains_hard) == (5 / 7, 0.75, 0.5)
    assert found.p_generate == [4, 0, 0, 0, 0, 0, 0, 0, 0, 2]


def test_nothing_asked_has_no_shares() -> None:
    found = health_of([])
    assert (found.asked, found.abstains, found.abstains_easy, found.p_generate) == (0, None, None, [])


@pytest.mark.parametrize(("generated", "abstained"), [(0, 100), (99, 1), (1, 99), (1000, 3)])
def test_a_share_outside_the_limits_is_told_once(generated: int, abstained: int) -> None:
    alarm = AbstentionAlarm()
    told = alarm.look(generated, abstained)
    assert told is not None
    assert told[0] == "abstention collapsed"
    assert f"of its last {generated + abstained} decisions (outside 2% to 98%)" in told[1]
    assert alarm.look(2 * generated, 2 * abstained) is None
    assert alarm.collapsed


def test_a_share_within_the_limits_is_none_and_a_recovery_is_told() -> None:
    alarm = AbstentionAlarm()
    assert alarm.look(2, 98) is None
    assert alarm.look(100, 100) is None
    told = alarm.look(200, 100)
    assert told is not None
    assert told[1].startswith("the memory policy abstains in 0.0% of its last 100 decisions")
    back = alarm.look(250, 150)
    assert back is not None
    assert back[0] == "abstention recovered"
    assert not alarm.collapsed


def test_few_decisions_say_nothing() -> None:
    alarm = AbstentionAlarm()
    assert alarm.look(0, LEAST - 1) is None
    assert alarm.look(0, LEAST) is not None


def test_the_programs_alarm_and_prometheus_alert_have_the_same_limits() -> None:
    settings = AlertSettings()
    assert (settings.advice_least, settings.advice_share) == (LEAST, COLLAPSED)
