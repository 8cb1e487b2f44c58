"""The view draws in a terminal and writes few, plain lines elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from agentmem.app.reporting.progress import Progress, clock
from agentmem.app.reporting.records import UpdateRecord
from agentmem.app.reporting.view import LiveView


class Clock:
    def __init__(self) -> None:
        self.t = 0.0

    def __call__(self) -> float:
        return self.t


def record(n: int, p: float = 0.5, trials: int = 8) -> UpdateRecord:
    return UpdateRecord(
        update=n,
        version=n,
        t=100.0 + 2.0 * n,
        trials=trials,
        p_at_k=[p, p, p],
        staleness_mean=0.75,
        learner_idle=0.25,
        rollout_idle=0.0,
        trials_per_s=40.0,
        tokens_per_s=2000.0,
    )


def plain(clock: Clock, updates: int = 100) -> tuple[LiveView, io.StringIO]:
    out = io.StringIO()
    return LiveView("run", updates, console=Console(file=out), interval_s=5.0, now=clock), out


def test_without_a_terminal_an_unchanged_phase_writes_one_line_an_interval() -> None:
    clock = Clock()
    view, out = plain(clock)
    with view:
        for n in range(101):
            clock.t = n / 10
            view.phase("evaluating", n, 512)
    lines = out.getvalue().splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["0:00:00", "0:00:05", "0:00:10"]
    assert lines[1].endswith("evaluating 50/512 (9 %)")


def test_a_new_phase_is_written_at_once() -> None:
    view, out = plain(Clock())
    with view:
        view.phase("starting engine")
        view.phase("training")
    assert [line.split(" | ")[1] for line in out.getvalue().splitlines()] == ["starting engine", "training"]


def test_what_was_held_back_is_written_at_the_end() -> None:
    view, out = plain(Clock())
    with view:
        view.phase("training")
        view.update(record(1))
        view.update(record(2))
    assert len(out.getvalue().splitlines()) == 2
    assert "update 2/100" in out.getvalue().splitlines()[-1]


def test_a_line_shows_success_speed_staleness_idleness_and_tickets() -> None:
    clock = Clock()
    view, out = plain(clock)
    with view:
        view.phase("training")
        view.update(record(1))
        view.update(record(2))
        clock.t = 6.0
        view.status({"queued": 3, "running": 5})
    line = out.getvalue().splitlines()[-1]
    for part in (
        "ETA 0:03:16",
        "p@1 0.50  p@2 0.50  p@3 0.50",
        "40.0 trials/s  2,000 tokens/s",
        "staleness 0.8 (max 0)",
        "idle learner 25%  rollout 0%",
        "tickets queued 3  running 5",
    ):
        assert part in line


def test_without_a_terminal_no_control_character_is_written() -> None:
    view, out = plain(Clock())
    with view:
        view.phase("training")
        view.update(record(1))
        view.note("\x1b[31mengine\x1b[0m 0 restarted\rnow")
    assert "engine 0 restarted now\n" in out.getvalue()
    assert all(c.isprintable() or c == "\n" for c in out.getvalue())


def test_a_stream_that_lacks_a_character_gets_a_substitute() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with LiveView("run", 3, console=Console(file=stream)) as view:
        view.note("γ is 0.95")
    assert raw.getvalue() == b"? is 0.95\n"


def test_in_a_terminal_the_panel_shows_the_progress_and_notes_stay_above() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=110, _environ={"TERM": "xterm"})
    with LiveView("lamer-x", 100, done=40, console=console) as view:
        view.phase("training")
        view.update(record(41))
        view.note("engine [0] restarted")
    shown = out.getvalue()
    assert "engine [0] restarted" in shown
    assert "lamer-x" in shown
    assert "41/100 updates" in shown
    assert "p@3 0.50" in shown


def test_a_dumb_terminal_gets_plain_lines() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, _environ={"TERM": "dumb"})
    with LiveView("run", 3, console=console) as view:
        view.phase("training")
    assert out.getvalue() == "0:00:00 | training\n"


def test_shares_are_averaged_over_the_trials_of_the_last_ten_updates() -> None:
    progress = Progress(updates=100)
    for n in range(1, 21):
        progress.add(record(n, p=0.0 if n <= 10 else 1.0, trials=8))
    assert progress.figures()["solved"] == "p@1 1.00  p@2 1.00  p@3 1.00"
    progress.add(record(21, p=0.0, trials=72 * 3))
    assert progress.figures()["solved"] == "p@1 0.25  p@2 0.25  p@3 0.25"


def test_the_remaining_time_follows_the_recent_pace_and_is_unknown_before() -> None:
    progress = Progress(updates=100, done=50)
    assert progress.eta_s() is None
    progress.add(record(51))
    assert progress.eta_s() is None
    progress.add(record(52))
    assert progress.eta_s() == 96.0
    progress.add(record(100))
    assert progress.eta_s() == 0.0


def test_an_update_without_a_valid_trial_is_shown_as_such() -> None:
    progress = Progress(updates=3)
    progress.add(UpdateRecord(update=1, version=1, t=1.0, trials=0, p_at_k=[]))
    assert progress.figures()["solved"] == "no valid trial"
    assert progress.figures()["reward"] == "–"


def test_long_times_are_shown_in_hours() -> None:
    assert clock(3 * 3600 + 62.4) == "3:01:02"
