"""`agentmem compare`: arms beside each other, paired by task, at equal budgets; bad input in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.app.evaluation.comparison import Name, compare
from agentmem.app.evaluation.comparison_text import as_json, as_text
from agentmem.app.evaluation.sources import load_sources
from agentmem.app.reporting.records import Condition, EvalRecord, MetricsWriter, Record, UpdateRecord
from agentmem.evaluation.lines import TrialLine, TrialWriter
from agentmem.failures import ConfigError
from tests.evaluation.made import outcome

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """Write what a run or an evaluation leaves; the path of its directory."""
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path))

    def save(
        name: str,
        lines: Sequence[TrialLine],
        *,
        env: str | None = "minesweeper",
        records: Sequence[Record] = (),
        **options: object,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        with TrialWriter(folder / "trials.jsonl") as writer:
            writer.append(lines)
        if env is not None:
            (folder / "config.yaml").write_text(yaml.safe_dump({"env": {"name": env, "options": options}}))
        with MetricsWriter(folder / "metrics.jsonl") as metrics:
            for record in records:
                metrics.append(record)
        return folder

    return save


def arm(*solved_in: int, condition: str = "with_memory", first: int = 0, update: int = 0) -> list[TrialLine]:
    return [
        outcome(n, instance=first + i, condition=condition, update=update) for i, n in enumerate(solved_in)
    ]


def test_each_source_is_paired_with_the_first_of_its_condition_and_with_itself(save: Save) -> None:
    a = save("a", arm(1, 2, 0, 0) + arm(0, 0, 0, 0, condition="without_memory"))
    b = save("b", arm(1, 1, 3, 0) + arm(1, 1, 0, 0, condition="without_memory"))
    found = compare(load_sources([str(a), f"better={b}"]))
    assert [(str(p.b), str(p.a)) for p in found.pairs] == [
        ("better, with memory", "a, with memory"),
        ("better, without memory", "a, without memory"),
        ("a, with memory", "a, without memory"),
        ("better, with memory", "better, without memory"),
    ]
    first = found.pairs[0]
    assert [d.value for d in first.differences] == [0.25, 0.0, 0.25]
    assert (first.differences[0].wins, first.differences[0].losses) == (1, 0)
    assert [[s.value for s in each.p_at_k] for each in found.arms] == [
        [0.25, 0.5, 0.5],
        [0.0, 0.0, 0.0],
        [0.5, 0.5, 0.75],
        [0.5, 0.5, 0.5],
    ]
    text = as_text(found)
    for part in ("better - a, with memory", "a: with memory - without memory", "+0.250", "1/0"):
        assert part in text


def test_later_attempts_are_compared_with_the_first(save: Save) -> None:
    attempts = [line for n in (1, 2, 3) for line in arm(n - 1, 1, condition=f"attempt_{n}")]
    found = compare(load_sources([str(save("a", attempts))]))
    assert [(p.b.condition, p.a.condition) for p in found.pairs] == [
        ("attempt_2", "attempt_1"),
        ("attempt_3", "attempt_1"),
    ]
    assert found.pairs[0].differences[0].value == 0.5


def test_budgets_are_cut_at_the_dearest_trial_of_the_cheapest_arm(save: Save) -> None:
    cheap, dear = save("cheap", arm(1, 0)), save("dear", arm(3, 3))
    one_episode = [outcome(n, episodes=1, instance=i) for i, n in enumerate((1, 0))]
    single = save("single", one_episode)
    assert compare(load_sources([str(cheap), str(dear)])).cuts["episodes"] == 3
    found = compare(load_sources([str(single), str(dear)]))
    assert found.cuts == {"episodes": 1, "tokens": 1, "wall_s": 1.0}
    assert [a.within["tokens"].value for a in found.arms] == [0.5, 0.0]
    assert [a.within["wall_s"].value for a in found.arms] == [0.5, 1.0]


def test_differing_tasks_are_left_out_and_said(save: Save) -> None:
    a, b = save("a", arm(1, 1, 0)), save("b", arm(0, 0, 0, 0, first=1))
    found = compare(load_sources([str(a), str(b)]))
    (pair,) = found.pairs
    assert (pair.differences[0].tasks, pair.only_a, pair.only_b) == (2, 1, 2)
    assert pair.differences[0].value == -0.5
    assert "2 tasks in common" in as_text(found)


def test_of_a_run_the_last_evaluation_counts(save: Save) -> None:
    run = save("a", arm(0, 0) + arm(1, 2, update=40))
    found = compare(load_sources([str(run), str(save("b", arm(0, 0)))]))
    assert (found.arms[0].update, found.arms[0].p_at_k[1].value) == (40, 1.0)


def test_training_is_cut_where_the_cheapest_run_ended(save: Save) -> None:
    def records(updates: int, trials: int) -> list[Record]:
        made: list[Record] = []
        for n in range(updates + 1):
            if n:
                made.append(
                    UpdateRecord(
                        update=n,
                        version=n,
                        t=float(n),
                        trials=trials,
                        p_at_k=[0.5, 0.5],
                        sampled_tokens=90,
                        tip_tokens=10,
                        wait_s=1.0,
                        update_s=0.5,
                        push_s=0.5,
                    )
                )
            made.append(evaluation(n))
        return made

    def evaluation(update: int, condition: Condition = "with_memory") -> EvalRecord:
        share = update / 10
        return EvalRecord(update=update, condition=condition, n=2, p_at_k=[share], low=[0.0], high=[1.0])

    long = save("long", arm(1, 1, update=4), records=records(4, trials=8))
    short = save("short", arm(1, 0, update=3), records=records(3, trials=2))
    found = compare(load_sources([str(long), str(short)]))
    assert found.training_cuts == {"episodes": 9.0, "tokens": 300.0, "wall_s": 6.0}
    at = found.training[0].at_cut
    assert {cost: at[cost]["with_memory"].update for cost in at} == {"episodes": 0, "tokens": 3, "wall_s": 3}
    assert found.training[1].at_cut["episodes"]["with_memory"].update == 3
    assert "u3" in as_text(found)


def test_json_holds_what_the_tables_show(save: Save) -> None:
    found = compare(load_sources([str(save("a", arm(1, 0))), str(save("b", arm(2, 2)))]))
    tree = json.loads(as_json(found))
    assert tree["arms"][1]["name"] == {"source": "b", "condition": "with_memory"}
    assert tree["pairs"][0]["differences"][1]["value"] == 0.5
    assert tree["arms"][0]["spent"]["tokens"] == {"act": 4}
    assert found.arms[0].name == Name("a", "with_memory")


def test_sources_are_found_by_name_path_or_file_and_called_after_their_recipe(save: Save) -> None:
    run = save("lamer-x-20260101-000000-abc123", arm(1))
    folder = save("evals/gigpo-x-20260101-000000-abc124", arm(0))
    file = save("other", arm(0), env=None) / "trials.jsonl"
    sources = load_sources(["abc123", "gigpo-x-20260101-000000-abc124", str(file), f"again={folder}"])
    assert [s.label for s in sources] == ["lamer-x", "gigpo-x-20260101-000000-abc124", "other", "again"]
    assert sources[0].path == run / "trials.jsonl"


def test_what_the_evaluations_differ_in_is_said(save: Save) -> None:
    a, b = save("a", arm(1, 0), mines=3, size=4), save("b", arm(0, 0), mines=4, size=4)
    text = as_text(compare(load_sources([str(a), str(b)])))
    assert "a and b were evaluated under differing settings: env.options.mines 3 and 4" in text
    for folder, episodes in ((a, 1), (b, 3)):
        tree = {"env": {"name": "minesweeper"}, "evaluation": {"episodes": episodes}}
        (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    notes = compare(load_sources([str(a), str(b)])).notes
    assert notes == ["a and b were evaluated under differing settings: evaluation.episodes 1 and 3"]


@pytest.mark.parametrize(
    ("targets", "parts"),
    [
        (["nope", "a"], ["'nope' not found", "file of trials"]),
        (["a"], ["a has one condition only"]),
        (["a", "a"], ["2 of the things", "'a'", "NAME=TARGET"]),
        (["a", "sokoban"], ["a plays minesweeper", "sokoban plays sokoban"]),
        (["a", "elsewhere"], ["a, with memory", "elsewhere, with memory", "no task in common"]),
        (["a", "untested"], ["untested-20260101-000000-abc123 has no trials.jsonl", "agentmem eval"]),
        (["a", "a/config.yaml"], ["config.yaml, line 1"]),
        ([], ["nothing to compare", "--sweep"]),
        (["a", "--table"], ["--table", "--sweep"]),
    ],
)
def test_what_can_not_be_compared_is_one_line(
    targets: list[str], parts: list[str], save: Save, tmp_path: Path
) -> None:
    save("a", arm(1, 0))
    save("sokoban", arm(1, 0), env="sokoban")
    save("elsewhere", arm(1, 0, first=100))
    (tmp_path / "untested-20260101-000000-abc123").mkdir()
    names = {"untested": "untested-20260101-000000-abc123"}
    full = [t if t.startswith("-") or t == "nope" else str(tmp_path / names.get(t, t)) for t in targets]
    result = CliRunner().invoke(app, ["compare", *full])
    assert isinstance(result.exception, ConfigError)
    (line,) = str(result.exception).splitlines()
    for part in parts:
        assert part in line


def test_the_command_prints_tables_or_json(save: Save) -> None:
    a, b = save("a", arm(1, 0)), save("b", arm(2, 2))
    table = CliRunner().invoke(app, ["compare", str(a), str(b)])
    assert table.exit_code == 0
    assert "Differences, paired by task" in table.output
    tree = json.loads(CliRunner().invoke(app, ["compare", str(a), str(b), "--json"]).output)
    assert len(tree["arms"]) == 2
