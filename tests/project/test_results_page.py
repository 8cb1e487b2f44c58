"""The documentation shows the learning results as they are recorded."""

from __future__ import annotations

from agentmem.app.sweeps.plan import load_sweep
from agentmem.config import load_config
from benchmarks.results_page import PAGE, ROOT, commands, filled


def test_every_table_is_what_its_command_prints_from_the_recorded_lines() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "agentmem compare --sweep benchmarks/sweeps/minesweeper.yaml --table" in commands(page)
    assert page.count("```console") == len(commands(page))
    assert page == filled(page)


def test_every_sweep_is_valid() -> None:
    sweeps = sorted((ROOT / "benchmarks" / "sweeps").glob("*.yaml"))
    assert sweeps
    for path in sweeps:
        for run in load_sweep(path).runs():
            load_config(run.recipe, run.overrides)
