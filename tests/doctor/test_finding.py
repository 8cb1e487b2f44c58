"""Findings as people, programs and shells read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem.app.doctor.doctor import NAMES
from agentmem.app.doctor.finding import Finding, Verdict, as_json, exit_status, from_json, line, summary

GOOD = Finding("settings", Verdict.GOOD, "as they must be")
SMALL = Finding("disk", Verdict.BAD, "0.5 GiB free", "make room", 4)
FULL = Finding("replay memory", Verdict.BAD, "100 MiB", "more", 5)
BLIND = Finding("clock", Verdict.UNSEEN, "one machine", "never shown")


def test_a_line_has_a_sign_what_was_found_and_a_remedy_if_it_is_needed() -> None:
    assert line(GOOD, 8) == "✔ settings  as they must be"
    assert line(SMALL, 8) == "✘ disk      0.5 GiB free → make room"
    assert line(BLIND, 8) == "– clock     one machine"


def test_the_exit_status_is_that_of_the_first_fault() -> None:
    assert exit_status([GOOD, BLIND]) == 0
    assert exit_status([GOOD, SMALL, FULL]) == 4
    assert summary([GOOD, FULL, SMALL]) == "1 checks passed, 2 failed (exit status 5)"
    assert summary([GOOD, BLIND]) == "1 checks passed, 0 failed, 1 not looked at"


def test_json_comes_back_as_it_went() -> None:
    assert from_json(as_json("recipe", [GOOD, SMALL])) == [GOOD, SMALL]
    with pytest.raises(ValueError, match="no findings"):
        from_json("{}")


def test_the_manual_has_a_line_for_each_check() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1].strip() for row in text.splitlines() if row.startswith("| `")]
    assert {name for name in NAMES if f"`{name}`" not in rows} == set()
