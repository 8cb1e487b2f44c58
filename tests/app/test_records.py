"""metrics.jsonl survives crashes and resumes: no torn line is read, no update stands twice."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from agentmem.app.reporting.records import (
    EvalRecord,
    EventRecord,
    GapRecord,
    MetricsWriter,
    Record,
    UpdateRecord,
    evals_of,
    gaps_of,
    read_records,
    truncate_after,
    updates_of,
)
from agentmem.failures import AgentMemError


def update(n: int, t: float | None = None) -> UpdateRecord:
    return UpdateRecord(update=n, version=n, t=10.0 * n if t is None else t, trials=8, p_at_k=[0.1, 0.2])


def evaluation(n: int, p: float = 0.5) -> EvalRecord:
    return EvalRecord(update=n, condition="with_memory", n=4, p_at_k=[p], low=[0.1], high=[0.9])


def write(path: Path, *records: Record) -> None:
    with MetricsWriter(path) as writer:
        for record in records:
            writer.append(record)


def test_what_is_written_is_read_back_in_order(tmp_path: Path) -> None:
    records: list[Record] = [evaluation(0), update(1), EventRecord(t=3.0, what="restart", detail="engine 0")]
    write(tmp_path / "m", *records)
    assert read_records(tmp_path / "m") == records


def test_each_record_is_one_json_line_that_other_tools_can_read(tmp_path: Path) -> None:
    write(tmp_path / "m", update(1), evaluation(1))
    lines = [json.loads(line) for line in (tmp_path / "m").read_text().splitlines()]
    assert [line["record"] for line in lines] == ["update", "eval"]


def test_a_record_is_readable_before_the_writer_closes(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "m")
    writer.append(update(1))
    assert read_records(tmp_path / "m") == [update(1)]
    writer.close()


def test_a_torn_last_line_is_left_out_and_the_next_writer_goes_on_after_it(tmp_path: Path) -> None:
    path = tmp_path / "m"
    write(path, update(1), update(2))
    path.write_bytes(path.read_bytes()[:-20])
    assert read_records(path) == [update(1)]
    write(path, update(2))
    assert read_records(path) == [update(1), update(2)]


def test_a_bad_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text('{"record":"update"}\n')
    write(path, update(1))
    with pytest.raises(AgentMemError, match="line 1"):
        read_records(path)


def test_a_resume_drops_later_updates_and_evaluations_and_keeps_events(tmp_path: Path) -> None:
    path = tmp_path / "m"
    event = EventRecord(t=35.0, what="interrupted")
    write(path, evaluation(0), update(1), update(2), evaluation(2), update(3), evaluation(3), event)
    spent = truncate_after(path, 2)
    assert read_records(path) == [evaluation(0), update(1), update(2), evaluation(2), event]
    assert spent == 35.0


def test_a_resumed_run_has_each_update_once(tmp_path: Path) -> None:
    path = tmp_path / "m"
    write(path, *(update(n) for n in range(1, 6)))
    spent = truncate_after(path, 3)
    write(path, update(4, spent + 1), update(5, spent + 2))
    assert [r.update for r in updates_of(read_records(path))] == [1, 2, 3, 4, 5]
    assert updates_of(read_records(path))[-1].t == 52.0


def test_a_run_without_metrics_resumes_from_zero_seconds(tmp_path: Path) -> None:
    assert truncate_after(tmp_path / "m", 3) == 0.0
    assert read_records(tmp_path / "m") == []


def test_of_two_evaluations_of_one_update_the_later_counts() -> None:
    assert evals_of([evaluation(3), evaluation(0), evaluation(3, p=0.8)]) == [
        evaluation(0),
        evaluation(3, p=0.8),
    ]


def test_a_loss_that_is_no_number_is_recorded_as_absent(tmp_path: Path) -> None:
    record = UpdateRecord(
        update=1, version=1, t=1.0, trials=0, p_at_k=[], policy_loss=math.nan, grad_norm=math.inf
    )
    write(tmp_path / "m", record)
    assert read_records(tmp_path / "m") == [UpdateRecord(update=1, version=1, t=1.0, trials=0, p_at_k=[])]


@pytest.mark.parametrize(("field", "value"), [("wait_s", math.nan), ("t", math.inf), ("p_at_k", [math.nan])])
def test_a_number_that_must_be_finite_is_refused_with_its_name(field: str, value: object) -> None:
    values: dict[str, object] = {"update": 1, "version": 1, "t": 1.0, "trials": 0, "p_at_k": [], field: value}
    with pytest.raises(ValueError, match=field):
        UpdateRecord(**values)  # type: ignore[arg-type]


def test_an_evaluation_needs_an_interval_for_each_share() -> None:
    with pytest.raises(ValueError, match="2 shares, 1 lower"):
        EvalRecord(update=0, condition="with_memory", n=4, p_at_k=[0.1, 0.2], low=[0.1], high=[0.9, 0.9])


def gap(n: int, value: float = 0.25) -> GapRecord:
    return GapRecord(update=n, n=4, gap=[value], low=[0.0], high=[0.5])


def test_a_resume_drops_the_memory_gaps_that_will_be_measured_again(tmp_path: Path) -> None:
    write(tmp_path / "m", evaluation(0), gap(0), update(1), evaluation(1), gap(1))
    assert truncate_after(tmp_path / "m", 0) == 10.0
    assert read_records(tmp_path / "m") == [evaluation(0), gap(0)]


def test_of_two_gaps_of_one_update_the_later_counts() -> None:
    assert gaps_of([gap(3), gap(0), gap(3, 0.5)]) == [gap(0), gap(3, 0.5)]


def test_a_memory_gap_needs_an_interval_for_each_k() -> None:
    with pytest.raises(ValueError, match="1 gaps, 2 lower"):
        GapRecord(update=0, n=4, gap=[0.1], low=[0.1, 0.2], high=[0.9])
