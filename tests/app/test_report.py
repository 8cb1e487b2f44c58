"""The report compares first and last evaluation, draws what was measured, and names the files there are."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

from agentmem.app.reporting.curve import draw_curve, figure, moving_averages, place
from agentmem.app.reporting.records import (
    Condition,
    EvalRecord,
    EventRecord,
    GapRecord,
    MetricsWriter,
    Record,
    UpdateRecord,
)
from agentmem.app.reporting.report import write_report
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.reporting.table import before_and_after, plain_table


def evaluation(
    update: int, p: list[float], condition: Condition = "with_memory", score: float | None = None
) -> EvalRecord:
    return EvalRecord(
        update=update,
        condition=condition,
        n=512,
        p_at_k=p,
        low=[x - 0.04 for x in p],
        high=[x + 0.03 for x in p],
        score=score,
    )


def training(n: int, p: float = 0.5, trials: int = 8) -> UpdateRecord:
    return UpdateRecord(update=n, version=n, t=60.0 + 30.0 * n, trials=trials, p_at_k=[p, p])


RECORDS: list[Record] = [
    evaluation(0, [0.15, 0.36]),
    evaluation(0, [0.12, 0.28], "without_memory"),
    training(1, 0.2),
    EventRecord(t=100.0, what="restart"),
    evaluation(1, [0.30, 0.50]),
    training(2, 0.4),
    evaluation(2, [0.50, 0.83]),
    evaluation(2, [0.51, 0.58], "without_memory"),
]


def run_with(tmp_path: Path, records: list[Record]) -> RunDir:
    run = RunDir.create("lamer-x", tmp_path)
    with MetricsWriter(run.metrics_path) as writer:
        for record in records:
            writer.append(record)
    return run


def test_the_table_has_before_and_after_of_each_condition_with_intervals() -> None:
    lines = plain_table(RECORDS).splitlines()
    assert lines[0].split() == ["memory", "training", "n", "p@1", "p@2"]
    assert [line.split(maxsplit=3)[:3] for line in lines[2:6]] == [
        ["with", "before", "512"],
        ["with", "after", "512"],
        ["without", "before", "512"],
        ["without", "after", "512"],
    ]
    assert lines[3].endswith("0.500 [0.460-0.530]  0.830 [0.790-0.860]")
    assert lines[5].endswith("0.510 [0.470-0.540]  0.580 [0.540-0.610]")
    assert "95 %" in lines[6]


def test_the_memory_gap_before_and_after_stands_below_the_shares() -> None:
    gaps = [
        GapRecord(update=n, n=500, gap=[-0.01, 0.05 * n], low=[-0.04, 0.0], high=[0.02, 0.3])
        for n in range(4)
    ]
    lines = plain_table([*RECORDS, *gaps]).splitlines()
    assert [line.split() for line in lines[6:8]] == [
        ["gap", "before", "500", "-0.010", "[-0.040,+0.020]", "+0.000", "[+0.000,+0.300]"],
        ["gap", "after", "500", "-0.010", "[-0.040,+0.020]", "+0.150", "[+0.000,+0.300]"],
    ]
    assert "paired by instance" in lines[-1]
    assert "paired by instance" not in plain_table(RECORDS)


def test_a_condition_evaluated_once_is_neither_before_nor_after() -> None:
    pair = before_and_after([evaluation(7, [0.5])])["with_memory"]
    assert pair.after is None
    assert "7 updates" in plain_table([evaluation(7, [0.5])])


def test_a_score_has_a_column_only_where_an_environment_gives_one() -> None:
    assert "score" not in plain_table(RECORDS)
    scored = plain_table([evaluation(0, [0.1], score=0.25), evaluation(1, [0.2])]).splitlines()
    assert scored[0].endswith("score")
    assert scored[2].endswith("0.250")
    assert scored[3].endswith("-")


def test_a_run_without_evaluation_says_so() -> None:
    assert "no held-out evaluation" in plain_table([training(1)])


def test_moving_averages_count_trials_not_updates() -> None:
    updates = [training(1, 0.0, trials=30), training(2, 1.0, trials=10), training(3, 1.0, trials=10)]
    assert moving_averages(updates, window=2) == [[0.0, 0.0], [0.25, 0.25], [1.0, 1.0]]


def test_an_evaluation_stands_at_its_update_or_at_the_time_of_it() -> None:
    updates = [training(1), training(2)]
    assert place(evaluation(2, [0.5]), updates, "update") == 2.0
    assert place(evaluation(2, [0.5]), updates, "time") == 2.0  # 120 s
    assert place(evaluation(1, [0.5]), updates, "time") == 1.5
    assert place(evaluation(0, [0.5]), updates, "time") == 0.0


def test_the_curve_draws_training_lines_and_evaluation_points_with_their_errors() -> None:
    axes = figure(RECORDS).axes[0]
    trained = [line for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 1]
    assert [list(line.get_ydata()) for line in trained] == [pytest.approx([0.2, 0.3])] * 2
    heights = [
        segment[:, 1].tolist() for container in axes.containers for segment in container[2][0].get_segments()
    ]
    assert heights[0] == pytest.approx([0.11, 0.18])
    assert len(heights) == 10
    labels = [text.get_text().replace("\n", " ") for text in axes.get_legend().get_texts()]
    assert labels == [
        "p@2, training",
        "p@1, training",
        "held out, with memory",
        "held out, without memory",
    ]


@pytest.mark.parametrize("records", [[], [EventRecord(t=1.0, what="x")], [training(1)], RECORDS])
def test_a_picture_is_written_whatever_was_measured(tmp_path: Path, records: list[Record]) -> None:
    path = draw_curve(records, tmp_path / "c.png", axis="time")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["c.png"]


def test_the_report_names_the_files_that_exist_and_no_others(tmp_path: Path) -> None:
    run = run_with(tmp_path, RECORDS)
    (run.final_model).mkdir()
    (run.final_model / "model.safetensors").touch()
    report = write_report(run)
    assert set(report.files) == {"metrics", "learning curve", "final model"}
    assert all(path.exists() for path in report.files.values())
    assert str(run.path) in report.text
    assert "curve.png" in report.text
    assert "checkpoints" not in report.text
    assert "agentmem show" not in report.text
    run.examples.touch()
    assert f"agentmem show {run.name}" in write_report(run).text


def test_an_interrupted_run_is_reported_as_far_as_it_came(tmp_path: Path) -> None:
    report = write_report(run_with(tmp_path, []))
    assert "no held-out evaluation" in report.text


def test_without_matplotlib_the_report_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    run = run_with(tmp_path, RECORDS)
    report = write_report(run)
    assert "agentmem[train]" in report.text
    assert not run.curve_path.exists()


@pytest.mark.parametrize("terminal", [True, False])
def test_all_shares_are_printed_even_in_a_narrow_terminal(tmp_path: Path, terminal: bool) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=60, _environ={"TERM": "xterm"})
    write_report(run_with(tmp_path, RECORDS), console)
    for share in ("0.150", "0.360", "0.500", "0.830", "0.280", "0.580", "[0.790-0.860]"):
        assert share in out.getvalue()
    assert ("\x1b" in out.getvalue()) == terminal


def test_modes_and_the_memory_gap_in_training_are_told(tmp_path: Path) -> None:
    run = RunDir.create("empo2-test", tmp_path)
    with MetricsWriter(run.metrics_path) as writer:
        for n in range(1, 101):
            # Early on tips help nobody, and that isn't in the gap.
            solved = 0 if n <= 50 else 6
            mode = ("plain", "tips", "plain", "off_policy")[n % 4]
            update = UpdateRecord(
                update=n,
                version=n,
                t=1.0 * n,
                trials=8,
                p_at_k=[0.5],
                modes={mode: [8, solved if mode != "plain" else 2]},
            )
            writer.append(update)
    text = write_report(run).text
    rows = [line.split() for line in text.splitlines()]
    assert ["plain", "400", "0.50", "0.250"] in [row[:4] for row in rows]
    assert ["off_policy", "200", "0.25", "0.390"] in [row[:4] for row in rows]
    assert "memory gap in training, last 50 updates: +0.500 [" in text


def test_a_run_without_modes_tells_nothing_of_them(tmp_path: Path) -> None:
    run = RunDir.create("lamer-test", tmp_path)
    with MetricsWriter(run.metrics_path) as writer:
        for record in RECORDS:
            writer.append(record)
    assert "memory gap in training" not in write_report(run).text
