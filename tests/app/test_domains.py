"""What is told by domain: tables of runs, comparisons, training records; the domains of a bank's records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from agentmem.app.evaluation.comparison import compare
from agentmem.app.evaluation.comparison_text import as_text
from agentmem.app.evaluation.sources import load_sources
from agentmem.app.live.preflight import evaluation_tasks
from agentmem.app.reporting.domain_table import run_domains
from agentmem.app.reporting.records import EvalRecord, MetricsWriter, UpdateRecord, read_records
from agentmem.app.sinks.sink import scalars_of
from agentmem.app.training.bank_domains import domains_of
from agentmem.app.training.update_record import domain_counts
from agentmem.config import RunConfig, load_config
from agentmem.evaluation.domains import figures_by_domain
from agentmem.evaluation.lines import AdviceLine, TrialLine, TrialWriter
from agentmem.failures import ConfigError
from agentmem.memory.bank.records import BankRecord, Tokens
from agentmem.replay import Group
from agentmem.trajectory import (
    Episode,
    Mode,
    Split,
    StopReason,
    Task,
    Trial,
    Turn,
    TurnKind,
    decode_trial,
    encode_trial,
)
from envs.domains import named, parted
from tests.evaluation.made import outcome


def line(domain: str, number: int, solved: bool, *, quiet: bool | None = None) -> TrialLine:
    made = outcome(int(solved), 1, instance=named(domain, number))
    if quiet is None:
        return msgspec.structs.replace(made, condition="without_memory")
    decision = "abstain" if quiet else "generate"
    said = AdviceLine(decision=decision, p_generate=0.5, hint_tokens=0 if quiet else 2)
    return msgspec.structs.replace(made, advice=[said])


def record(lines: list[TrialLine], update: int, left_out: list[str]) -> EvalRecord:
    share = sum(one.within(1) for one in lines) / len(lines)
    return EvalRecord(
        update=update,
        condition="with_memory",
        n=len(lines),
        p_at_k=[share],
        low=[0.0],
        high=[1.0],
        domains=figures_by_domain(lines, 1, left_out),
    )


def lines_of(solved_of_a: int, solved_of_b: int) -> list[TrialLine]:
    """Four tasks of `a`, which are given hints, and two of `b`, which aren't."""
    of_a = [line("a", n, n < solved_of_a, quiet=False) for n in range(4)]
    return of_a + [line("b", n, n < solved_of_b, quiet=True) for n in range(2)]


BEFORE, AFTER = lines_of(1, 0), lines_of(3, 1)


def test_a_runs_report_has_each_domain_before_and_after_and_their_mean(tmp_path: Path) -> None:
    trained = {"groups": 3.0, "trials": 12.0, "solved": 9.0}
    update = UpdateRecord(update=1, version=1, t=1.0, trials=12, p_at_k=[0.75], domains={"a": trained})
    with MetricsWriter(tmp_path / "metrics.jsonl") as writer:
        for each in (record(BEFORE, 0, ["b"]), update, record(AFTER, 1, ["b"])):
            writer.append(each)
    text = run_domains(read_records(tmp_path / "metrics.jsonl"))
    rows = [row.split() for row in text.splitlines()]
    assert ["a", "with", "before", "4", "0.250"] in [row[:5] for row in rows]
    assert ["a", "with", "after", "4", "0.750"] in [row[:5] for row in rows]
    assert ["b*", "with", "after", "2", "0.500"] in [row[:5] for row in rows]
    means = [row for row in rows if row[:3] == ["mean", "of", "domains"]]
    assert [row[3:7] for row in means] == [["with", "before", "6", "0.125"], ["with", "after", "6", "0.625"]]
    assert ["a", "3", "1.00", "12", "0.750"] in rows
    assert "left out of training" in text


def test_a_run_of_one_environment_says_nothing_of_domains() -> None:
    alone = [outcome(1, 1, instance=n) for n in range(3)]
    assert run_domains([record(alone, 0, []), record(alone, 1, [])]) == ""


def test_sinks_get_each_domains_numbers() -> None:
    _, scalars = scalars_of(record(AFTER, 1, []))
    assert scalars["eval/with_memory/domains/a/p_at_k/1"] == 0.75
    assert scalars["eval/with_memory/domains/b/abstained/1"] == 1.0


def test_evaluations_are_compared_by_domain(tmp_path: Path) -> None:
    for name, lines in (("one", BEFORE), ("two", AFTER)):
        folder = tmp_path / name
        folder.mkdir()
        with TrialWriter(folder / "trials.jsonl") as trials:
            trials.append(lines)
        with MetricsWriter(folder / "metrics.jsonl") as metrics:
            metrics.append(record(lines, 0, ["b"]))
        (folder / "config.yaml").write_text(yaml.safe_dump({"env": {"name": "mixture", "options": {}}}))
    found = compare(load_sources([str(tmp_path / "one"), str(tmp_path / "two")]))
    (pair,) = found.pairs
    assert {name: (d.value, d.tasks) for name, d in pair.domains.items()} == {"a": (0.5, 4), "b": (0.5, 2)}
    text = as_text(found)
    assert "Success by domain" in text
    assert "Differences of p@1 by domain" in text
    assert "b*" in text


def played(domain: str, member: int, branch: str, solved: bool, gap: float | None) -> Trial:
    advice = Turn(kind=TurnKind.ADVISE, policy="memory", actions=(branch,), gap=gap)
    stop = StopReason.SUCCESS if solved else StopReason.FAILURE
    episode = Episode(
        index=0, initial_observation="", turns=(), stop=stop, success=solved, reward=float(solved)
    )
    trial = Trial(
        ticket=f"{domain}-{member}",
        task=Task(environment="mixture", instance=named(domain, 1), group=domain),
        member=member,
        group_size=3,
        mode=Mode(method="mempi", advice=branch),
        episodes=(episode,),
        advice=(advice,),
        wall_s=0.0,
    )
    assert decode_trial(encode_trial(trial)) == trial
    return trial


def test_training_is_told_by_domain_and_branch_and_what_the_policy_would_decide() -> None:
    groups = [
        Group(
            id=domain,
            size=3,
            sequence=1,
            trials=(
                played(domain, 0, "abstain", False, gap),
                played(domain, 1, "generate", True, None),
                played(domain, 2, "generate", False, None),
            ),
            payload_bytes=1,
            versions=(0, 0),
        )
        for domain, gap in (("a", 0.7), ("b", -0.7))
    ]
    found = domain_counts(groups, threshold=0.0)
    assert found["a"] == {
        "groups": 1,
        "trials": 3,
        "solved": 1,
        "trials_generate": 2,
        "solved_generate": 1,
        "trials_abstain": 1,
        "solved_abstain": 0,
        "choices": 1,
        "would_abstain": 0,
    }
    assert found["b"]["would_abstain"] == 1
    assert domain_counts(groups, threshold=1.0)["a"]["would_abstain"] == 1


# --- Stage 1 ---


def mixture(*overrides: str) -> RunConfig:
    return load_config("mempi-mixture", overrides)


def known(domain: str, task_id: str | int) -> BankRecord:
    return BankRecord(
        id=f"{domain}-{task_id}", domain=domain, task_id=task_id, seed=None, split=Split.TRAIN, q="q",
        o="hall", m="hall red",
        sources=("t:0",), successes=1, failures=0, writer="w", prompt_version="1",
        tokens=Tokens(prompt=None, completion=None),
    )  # fmt: skip


def test_a_banks_records_find_their_domain_by_their_task_or_by_their_environment() -> None:
    records = [known("mixture", "@small/hall-attic-cellar"), known("scout", 5)]
    assert domains_of(mixture(), records, "bank.jsonl") == ["small", "scout"]
    assert domains_of(load_config("mempi-doors"), [known("anything", 1)], "bank.jsonl") == [""]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (known("doors", "hall-attic-cellar"), "domains small, large are of it"),
        (known("sokoban", 1), "no domain is; domains are small, large, scout"),
        (known("mixture", "@tiny/hall"), "domains are small, large, scout"),
        (known("mixture", "@large/hall"), "domain large is left out"),
    ],
)
def test_a_record_of_no_domain_of_two_or_of_one_that_is_left_out_is_refused(
    record: BankRecord, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        domains_of(mixture("env.options.leave_out=[large]"), [record], "bank.jsonl")
    assert str(refused.value).startswith(f"bank.jsonl holds a record of {record.domain} {record.task_id}")


def test_a_banks_test_tasks_are_known_under_both_of_their_names() -> None:
    tasks = set(evaluation_tasks(mixture()))
    one = next(task_id for domain, task_id in tasks if domain == "mixture" and "@small" in task_id)
    assert ("doors", str(parted(one)[1])) in tasks
