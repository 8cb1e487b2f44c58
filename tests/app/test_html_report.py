"""The report is one file that needs no other, says what the tables say, and draws what there is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.app.evaluation.comparison import compare
from agentmem.app.evaluation.html.looks import looks
from agentmem.app.evaluation.html.page import check_writable, page, write_page
from agentmem.app.evaluation.html.svg import Plot, ticks
from agentmem.app.evaluation.sources import Source
from agentmem.app.reporting.records import EvalRecord, MaskRecord, Record, UpdateRecord
from agentmem.evaluation.lines import TrialLine
from agentmem.failures import ConfigError
from tests.evaluation.made import outcome


def arm(*solved_in: int, condition: str = "with_memory") -> list[TrialLine]:
    return [outcome(n, instance=i, condition=condition) for i, n in enumerate(solved_in)]


def source(label: str, *arms: list[TrialLine], records: list[Record] | None = None) -> Source:
    by_condition = {lines[0].condition: lines for lines in arms}
    return Source(
        label, Path(f"/nowhere/{label}/trials.jsonl"), 0, by_condition, records or [], "sokoban", {}
    )


def training() -> list[Record]:
    evals: list[Record] = [
        EvalRecord(update=n, condition="with_memory", n=9, p_at_k=[n / 9], low=[0.0], high=[1.0])
        for n in range(3)
    ]
    updates: list[Record] = [
        UpdateRecord(update=n, version=n, t=n, trials=8, p_at_k=[0.5], sampled_tokens=9, wait_s=1.0)
        for n in (1, 2)
    ]
    return evals + updates


SOURCES = [
    source("a <b> & c", arm(1, 2, 0, 0), arm(0, 0, 0, 1, condition="without_memory"), records=training()),
    source("other", arm(1, 1, 3, 3), arm(0, 3, 0, 0, condition="without_memory"), records=training()),
]


def plots(text: str) -> dict[str, ET.Element]:
    """Label -> SVG; parsing it fails for anything that is not well-formed."""
    found = [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    return {svg.get("aria-label", ""): svg for svg in found}


def test_the_page_refers_to_nothing_outside_itself() -> None:
    text = page(compare(SOURCES), SOURCES)
    assert not re.search(r"https?:|//[a-z]|<script|<link|<img|@import|url\(|src=", text)


def test_every_plot_is_well_formed_and_has_its_label() -> None:
    found = plots(page(compare(SOURCES), SOURCES))
    assert {
        "Share of tasks solved within k episodes",
        "Paired differences between arms",
        "p@3 over episodes of training",
        "p@3 over wall time [s] of training",
        "Success within a budget in sampled tokens",
        "Tokens of a trial",
    } <= found.keys()


def test_figures_are_those_of_the_comparison() -> None:
    comparison = compare(SOURCES)
    text = page(comparison, SOURCES)
    for each in comparison.arms:
        assert f"{100 * each.p_at_k[-1].value:.1f}%" in text
    forest = plots(text)["Paired differences between arms"]
    written = [node.text for node in forest.iter("text")]
    for pair in comparison.pairs:
        for d in pair.differences:
            assert f"{d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]" in written
    bars = plots(text)["Share of tasks solved within k episodes"]
    titles = [node.text or "" for node in bars.iter("title")]
    assert len(titles) == len(comparison.arms) * comparison.k
    assert "other, with memory: p@3 1.000" in " ".join(titles)


def test_names_of_the_user_are_text_not_markup() -> None:
    text = page(compare(SOURCES), SOURCES)
    assert "a &lt;b&gt; &amp; c" in text
    assert "<b>" not in text


def test_one_arm_alone_has_a_report_without_differences() -> None:
    alone = [source("x", arm(1, 0))]
    text = page(compare(alone, alone=True), alone)
    assert "paired by task" not in text
    assert "Over training" not in text
    assert "At equal budgets" not in text
    assert 'class="cut"' not in text
    assert "Example trials" not in text
    assert "50.0%" in text


def test_arms_are_told_apart_however_many_conditions_there_are() -> None:
    many = [source("x", *(arm(1, 0, condition=f"attempt_{n}") for n in range(10)))]
    found = looks(compare(many))
    assert len({(look.colour, look.tint) for look in found.values()}) == 10
    two = [source(name, arm(1, 0), arm(0, 0, condition="without_memory")) for name in ("x", "y")]
    assert len({(look.colour, look.tint, look.dash) for look in looks(compare(two)).values()}) == 4


def test_masks_have_their_table() -> None:
    record = MaskRecord(
        mask="summary",
        trials=9,
        tasks=8,
        remembered=0.5,
        masked=0.125,
        difference=-0.375,
        low=-0.5,
        high=-0.25,
        p=0.01,
        better=1,
        worse=4,
    )
    masked = [source("x", arm(2, 0), records=[record])]
    text = page(compare(masked, alone=True), masked)
    assert "What the memory is worth" in text
    for part in ("<td>summary</td>", "0.125", "-0.375", "1 · 3 · 4", "p = 0.01"):
        assert part in text
    assert "What the memory is worth" not in page(compare(SOURCES), SOURCES)


def test_the_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "report.html"
    for _ in range(2):
        write_page(target, compare(SOURCES), SOURCES)
    assert target.read_text(encoding="utf-8").endswith("</html>\n")
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_a_report_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="that is a directory"):
        check_writable(tmp_path)
    with pytest.raises(ConfigError, match="can't make its directory"):
        check_writable(tmp_path / "file" / "report.html")


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_round_within_the_range_and_not_too_many(low: float, width: float) -> None:
    high = low + width
    if not low < high:
        return
    found = ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), 1e-6)
    assert all(low - slack <= t <= high + slack for t in found)
    assert len(found) <= 8


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0, 24_017, [0, 5e3, 1e4, 1.5e4, 2e4])],
)
def test_ticks_by_hand(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


def test_data_is_mapped_into_the_axes() -> None:
    plot = Plot(200, 100, (0, 10), (0, 1), left=20, right=30, top=10, bottom=10)
    assert (plot.x(0), plot.x(10), plot.y(0), plot.y(1)) == (20, 170, 90, 10)
