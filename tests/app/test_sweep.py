"""Sweeps: what is planned, what is skipped, what a failure or a Ctrl-C does, and what the tables say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentmem.app.reporting.learning_log import LearningLine, Measured, append_line, read_lines
from agentmem.app.sweeps.plan import check_runs, key_of, load_sweep
from agentmem.app.sweeps.run import run_sweep
from agentmem.app.sweeps.table import sweep_tables
from agentmem.failures import AgentMemError, ConfigError

TWO_ARMS = """
seeds: [0, 1]
seed_settings: [seed, policies.agent.warmup.seed]
notes: a test
overrides: [learner.updates=2]
arms:
  - {name: first, recipe: lamer-minesweeper}
  - {name: second, recipe: gigpo-minesweeper, overrides: [learner.updates=3], notes: longer}
differences:
  - {of: first, over: second without_memory}
"""

SMALL = """
seeds: [0]
overrides:
  - engines.agent.backend=torch
  - learner.updates=2
  - rollout.tasks_per_update=2
  - rollout.group_size=4
  - policies.agent.warmup.steps=30
  - policies.agent.warmup.batch_rows=64
  - evaluation.tasks=16
arms:
  - {name: broken, recipe: lamer-minesweeper, overrides: [policies.agent.model=EMPTY]}
  - {name: small, recipe: lamer-minesweeper}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return path


def line(
    arm: str, recipe: str, overrides: list[str], seed: int, solved: list[int], without: list[int]
) -> LearningLine:
    """A recorded run: so many of 100 boards solved, with and without memory."""

    def measured(counts: list[int]) -> Measured:
        return Measured(p_at_k=[c / 100 for c in counts], n=100, score=None)

    after = {"with_memory": measured(solved), "without_memory": measured(without)}
    before = {condition: measured([10, 20]) for condition in after}
    return LearningLine(
        recipe=recipe,
        overrides=overrides,
        seed=seed,
        commit="abc",
        arm=arm,
        before=before,
        after=after,
        updates=2,
        trials=8,
        tokens=1500,
        wall_s=10.0,
        cpu_s=12.0,
        notes="n",
        episodes=20,
    )


def all_lines(path: Path) -> list[LearningLine]:
    """What the sweep of `TWO_ARMS` could have recorded."""
    solved = {"first": ([30, 60], [30, 40]), "second": ([20, 30], [20, 26])}
    return [
        line(
            run.arm,
            run.recipe,
            list(run.overrides),
            run.seed,
            [c + 10 * run.seed for c in solved[run.arm][0]],
            solved[run.arm][1],
        )
        for run in load_sweep(path).runs()
    ]


def test_the_first_seed_of_every_arm_comes_before_the_second(tmp_path: Path) -> None:
    runs = load_sweep(written(tmp_path, TWO_ARMS)).runs()
    assert [(r.arm, r.seed) for r in runs] == [("first", 0), ("second", 0), ("first", 1), ("second", 1)]
    assert runs[3].overrides == (
        "learner.updates=2",
        "learner.updates=3",
        "seed=1",
        "policies.agent.warmup.seed=1",
    )
    assert (runs[2].notes, runs[3].notes) == ("a test", "a test; longer")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("seeds: [0, 1]", "seeds: [1, 1]"), "seeds: 1 more than once"),
        (("seeds: [0, 1]", "seeds: []"), "seeds is "),
        (("seeds: [0, 1]", "seeds: ['0']"), "seeds.0 is '0'"),
        (("seeds: [0, 1]", ""), "seeds is missing"),
        (("name: second", "name: first"), "arms: first more than once"),
        (("name: second", "name: a b"), "arms.1.name is 'a b'"),
        (("notes: a test", "note: a test"), "note is 'a test'"),
        (("[seed, ", "["), "'seed' must be among them"),
        (("over: second without_memory", "over: third"), "'third' is no arm (first, second)"),
        (("over: second without_memory", "over: second blind"), "'second blind' is no arm"),
        ((TWO_ARMS, "- a"), "a mapping with seeds and arms is needed"),
        ((TWO_ARMS, "a: ["), "no valid YAML"),
    ],
)
def test_a_wrong_sweep_is_one_line_that_names_file_and_key(
    tmp_path: Path, change: tuple[str, str], named: str
) -> None:
    path = written(tmp_path, TWO_ARMS.replace(*change))
    with pytest.raises(ConfigError) as raised:
        load_sweep(path)
    assert named in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_sweep_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent.yaml: not found"):
        load_sweep(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("learner.updats=3", "arm 'second': .*learner.updats"),
        ("evaluation.tasks=0", "arm 'second': evaluation.tasks is 0"),
        ("env.name=chess", "arm 'second': .*chess"),
    ],
)
def test_an_arm_that_can_not_run_is_refused_before_the_first_run(
    tmp_path: Path, override: str, named: str
) -> None:
    path = written(tmp_path, TWO_ARMS.replace("[learner.updates=3]", f"[{override}]"))
    with pytest.raises(AgentMemError, match=named):
        check_runs(load_sweep(path), path)


def test_a_complete_sweep_runs_nothing_and_prints_its_tables(tmp_path: Path) -> None:
    path, results = written(tmp_path, TWO_ARMS), tmp_path / "results.jsonl"
    for recorded in all_lines(path):
        append_line(recorded, results)
    before = results.read_bytes()
    said: list[str] = []
    run_sweep(path, results=results, say=said.append)
    assert "4 runs, 4 recorded" in said[0]
    assert said[1] == sweep_tables(load_sweep(path), read_lines(results))
    assert results.read_bytes() == before


def test_the_tables_pool_boards_and_show_seeds_differences_and_costs(tmp_path: Path) -> None:
    path = written(tmp_path, TWO_ARMS)
    rows = [r.split() for r in sweep_tables(load_sweep(path), all_lines(path)).splitlines()]
    # 130 of 200 boards, Wilson: 0.65 [0.582-0.713] by hand.
    assert ["first", "with", "2", "200", "0.350", "[0.287-0.418]", "0.650", "[0.582-0.713]", "0.200"] in rows
    assert ["first", "with", "0.300/0.600", "0.400/0.700"] in rows
    # 0.65 - 0.26: the root of 0.0683² + 0.0648² below, of 0.0627² + 0.0562² above.
    pooled = ["first", "-", "second", "(no", "memory)", "+0.150", "[+0.063,", "+0.234]", "+0.390"]
    assert [*pooled, "[+0.296,", "+0.474]"] in rows
    # By seed 0.34 and 0.44: mean 0.39, Student with one degree of freedom 12.7062 * 0.0707 / sqrt(2).
    seeded = ["+0.100/+0.340", "+0.200/+0.440", "+0.390", "[-0.245,", "+1.025]"]
    assert [*pooled[:5], *seeded] in rows
    assert ["first", "2", "8", "20", "1,500", "10", "(10-10)", "12"] in rows


def test_what_is_not_recorded_is_named_and_never_filled_in(tmp_path: Path) -> None:
    path = written(tmp_path, TWO_ARMS)
    lines = all_lines(path)
    text = sweep_tables(load_sweep(path), lines[:3])
    assert "Not recorded yet: second, seed 1." in text
    other = [recorded for recorded in lines if recorded.arm == "first"]
    assert "second -" not in sweep_tables(load_sweep(path), other)
    assert "Held-out" not in sweep_tables(load_sweep(path), [])


def test_a_line_with_other_overrides_is_another_run(tmp_path: Path) -> None:
    path = written(tmp_path, TWO_ARMS)
    lines = all_lines(path)
    changed = written(tmp_path, TWO_ARMS.replace("[learner.updates=3]", "[learner.updates=4]"))
    assert "Not recorded yet: second, seed 0; second, seed 1." in sweep_tables(load_sweep(changed), lines)


def sweep_process(path: Path, results: Path, runs: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "agentmem", "compare", "--sweep", str(path), "--results", str(results)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "AGENTMEM_RUNS": str(runs)},
    )


def test_a_failed_run_is_reported_and_the_others_are_run_and_recorded(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    path = written(tmp_path, SMALL.replace("EMPTY", str(tmp_path / "empty")))
    results = tmp_path / "results.jsonl"
    process = sweep_process(path, results, tmp_path / "runs")
    output, _ = process.communicate(timeout=240)
    assert process.returncode == 1, output
    (recorded,) = read_lines(results)
    small = load_sweep(path).runs()[1]
    assert key_of(recorded) == small.key
    assert (recorded.updates, recorded.trials) == (2, 16)
    assert 16 <= (recorded.episodes or 0) <= 48
    assert "failed with exit status 3; the end of" in output
    assert f"model {tmp_path / 'empty'}: no config.json" in output
    assert "Not recorded yet: broken, seed 0." in output
    assert "1 of its runs failed: broken, seed 0" in output.splitlines()[-1]


def test_ctrl_c_ends_the_run_under_way_and_the_sweep(tmp_path: Path) -> None:
    kept = [text for text in SMALL.splitlines() if "broken" not in text]
    path, results = written(tmp_path, "\n".join(kept)), tmp_path / "results.jsonl"
    process = sweep_process(path, results, tmp_path / "runs")
    log = tmp_path / "runs" / "sweep-logs" / "sweep-small-0.log"
    end = time.monotonic() + 120
    while not (log.is_file() and log.stat().st_size):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "Interrupted." in log.read_text()
    assert f"Go on with: agentmem compare --sweep {path}" in output
    assert not results.exists()
