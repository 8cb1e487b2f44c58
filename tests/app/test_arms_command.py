"""`agentmem arms` before it plays, and `agentmem compare` on what it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.app.evaluation.arms.asking import task_names
from agentmem.app.evaluation.arms.checking import checked
from agentmem.app.evaluation.arms.fitting import gate_of
from agentmem.app.evaluation.arms.plan import Manifest, Mark, chosen_arms, plays_of, settle
from agentmem.config import load_config
from agentmem.evaluation.lines import AdviceLine, TrialWriter
from agentmem.failures import ConfigError, ModelError
from agentmem.trajectory import Split
from tests.e2e.test_stage1_run import bank
from tests.evaluation.made import episode, trial


@pytest.fixture(scope="module")
def memory_model() -> Path:
    """A tiny memory policy for Doors, hardly warmed up."""
    from agentmem.app.models.resolve import resolve_for

    few = ["policies.memory.warmup.steps=5", "policies.memory.warmup.batch_rows=16"]
    return resolve_for(load_config("mempi-doors", few), "memory")


def ask(tmp_path: Path, **given: Any) -> Any:
    """`checked` with everything in order but what is given."""
    (tmp_path / "b").mkdir(exist_ok=True)
    order: dict[str, Any] = {
        "bank": bank(tmp_path / "b" / "bank.jsonl"), "out": tmp_path / "out", "arms": "none,rag",
        "stage1": None, "full": None, "seed": 0, "tasks": 8, "fit_tasks": 4, "known": (), "overrides": (),
    }  # fmt: skip
    return checked(given.pop("which", "mempi-doors"), **{**order, **given})


def test_none_is_always_played_and_the_oracle_is_computed() -> None:
    assert chosen_arms("full,rag") == ("none", "rag", "full")
    assert chosen_arms("oracle") == ("none", "full-always")
    assert len(chosen_arms(None)) == 8


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"arms": "none,rog"}, r"--arms: 'rog' is unknown; arms are none, untrained, rag"),
        ({"arms": " , "}, "names none"),
        ({"arms": "stage1"}, "--stage1 is missing: arm 'stage1' needs it"),
        ({"arms": "oracle"}, "--full is missing: arm 'full-always' needs it"),
        ({"arms": "stage1", "stage1": "no/such"}, "--stage1 no/such: neither a model's directory nor a run"),
        ({"which": "lamer-minesweeper"}, "lamer-minesweeper: method is 'lamer'"),
        ({"which": "nope"}, "nope"),
        ({"tasks": 0}, "--tasks is 0: at least 1"),
        ({"fit_tasks": 0}, "--fit-tasks is 0: at least 1"),
        ({"overrides": ["advice.every=episode"]}, "advice.every is 'episode'"),
        ({"bank": Path("gone.jsonl")}, "gone.jsonl can't be read"),
    ],
)
def test_what_cannot_be_played_is_one_line(tmp_path: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        ask(tmp_path, **given)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_bank_with_a_test_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds 64 records of test tasks"):
        ask(tmp_path, bank=bank(tmp_path / "bank.jsonl", split=Split.EVAL))


def test_a_model_without_decision_tokens_is_refused(tmp_path: Path, tiny_model: Path) -> None:
    with pytest.raises(ModelError, match=r"--full: .*lacks \[GENERATE\] and \[ABSTAIN\]"):
        ask(tmp_path, arms="full", full=str(tiny_model))


def test_a_model_is_a_directory_or_a_runs_final_model(
    tmp_path: Path, memory_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(tmp_path, arms="full", full=str(memory_model)).models == {"full": memory_model}
    run = tmp_path / "runs" / "mempi-doors-20260101-000000-abcdef"
    run.mkdir(parents=True)
    (run / "final_model").symlink_to(memory_model)
    (run / "config.yaml").write_text("recipe: x")
    monkeypatch.setenv("AGENTMEM_RUNS", str(run.parent))
    assert ask(tmp_path, arms="stage1", stage1="abcdef").models == {"stage1": memory_model}


def test_without_a_terminal_the_refusal_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    words = [
        "arms",
        "mempi-doors",
        "--bank",
        str(bank(tmp_path / "bank.jsonl")),
        "--out",
        str(tmp_path / "o"),
    ]
    result = CliRunner().invoke(app, [*words, "--arms", "nonsense"])
    assert result.exit_code != 0
    assert isinstance(result.exception, ConfigError)
    assert not (tmp_path / "o").exists()


def manifest(**fields: Any) -> Manifest:
    mark = Mark(path="bank.jsonl", digest="1")
    given = {"target": "mempi-doors", "seed": 0, "fit_tasks": 4, "plays": {"env.name": "doors"}, "asks": {}}
    return Manifest(**{**given, "bank": mark, "models": {}, **fields})


def test_what_has_changed_since_is_not_gone_on_with(tmp_path: Path) -> None:
    model = {"full": Mark(path="full", digest="a")}
    settle(tmp_path, manifest(models=model))
    settle(tmp_path, manifest(seed=3, models=model))  # nothing was played yet
    (tmp_path / "trials.jsonl").touch()
    settle(tmp_path, manifest(seed=3, models={"stage1": Mark(path="s", digest="b")}))
    for changed, says in (
        (manifest(seed=4), "seed was 3 and is 4"),
        (
            manifest(seed=3, bank=Mark(path="bank.jsonl", digest="2")),
            "the bank bank.jsonl was '1' and is '2'",
        ),
        (manifest(seed=3, plays={"env.name": "scout"}), "env.name was 'doors' and is 'scout'"),
        (manifest(seed=3, models={"full": Mark(path="full", digest="c")}), "the model 'full' was 'a'"),
    ):
        with pytest.raises(ConfigError, match=says):
            settle(tmp_path, changed)


def played(folder: Path, seed: int, **fields: Any) -> Path:
    """A directory of two arms on four tasks: the agent alone solves half, a hint solves all."""
    folder.mkdir()
    (folder / "arms.json").write_bytes(msgspec.json.encode(manifest(seed=seed, **fields)))
    said = AdviceLine(
        decision="generate", p_generate=None, hint_tokens=2, hint="hall red", record="r", cosine=0.9
    )
    with TrialWriter(folder / "trials.jsonl") as writer:
        for n in range(4):
            alone = trial(episode(("a",), n < 2), instance=n, seed=seed, condition="none")
            hinted = trial(episode(("a",), True), instance=n, seed=seed, condition="rag")
            writer.append([alone, msgspec.structs.replace(hinted, advice=[said])])
    return folder


def test_seeds_are_compared_as_text_markdown_and_json(tmp_path: Path) -> None:
    folders = [str(played(tmp_path / f"s{seed}", seed)) for seed in (0, 1)]
    text = CliRunner().invoke(app, ["compare", *folders])
    assert text.exit_code == 0, text.output
    assert "Success on 4 held-out tasks, of which the agent alone solves 2" in text.output
    assert "rag - none  4      +0.500" in text.output
    markdown = CliRunner().invoke(app, ["compare", *folders, "--markdown"]).output
    assert "| rag | 8 | 1.000 | 0.000 | 1.000 | 1.000 |" in markdown
    assert "| rag | 2.00 | 0.000 [0.000-0.324] |" in markdown
    told = json.loads(CliRunner().invoke(app, ["compare", *folders, "--json"]).output)
    assert told["seeds"] == [0, 1]
    assert [row["arm"] for row in told["rows"]] == ["none", "rag"]
    assert told["rows"][1]["won"]["value"] == 1.0


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"seed": 0}, "both hold seed 0"),
        ({"seed": 1, "plays": {"env.name": "scout"}}, "differing settings: env.name 'doors' and 'scout'"),
    ],
)
def test_directories_that_do_not_belong_together_are_refused(
    tmp_path: Path, second: dict[str, Any], says: str
) -> None:
    folders = [str(played(tmp_path / "a", 0)), str(played(tmp_path / "b", **second))]
    result = CliRunner().invoke(app, ["compare", *folders])
    assert isinstance(result.exception, ConfigError)
    assert says in str(result.exception)


def test_another_bank_of_a_seed_is_noted(tmp_path: Path) -> None:
    folders = [str(played(tmp_path / "a", 0))]
    folders.append(str(played(tmp_path / "b", 1, bank=Mark(path="other.jsonl", digest="2"))))
    output = CliRunner().invoke(app, ["compare", *folders]).output
    assert "another bank than seed 0: other.jsonl and bank.jsonl" in output


def test_markdown_is_for_arms_alone(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["compare", str(tmp_path), "--markdown"])
    assert "--markdown is for directories" in str(result.exception)


def test_trials_of_another_setting_are_not_taken_over(tmp_path: Path) -> None:
    other = played(tmp_path / "k", 1, plays=plays_of(load_config("mempi-doors", ["env.options.doors=3"])))
    with pytest.raises(ConfigError, match=r"--known .*: its trials were played with env.options"):
        ask(tmp_path, known=(other,))
    served = ["policies.agent.model=tiny", "engines.agent={backend: torch}"]
    with pytest.raises(ConfigError, match="only a scripted agent's can be taken over"):
        ask(tmp_path, known=(other,), overrides=served)


def test_a_threshold_is_learnt_from_training_tasks_that_both_played() -> None:
    config = load_config("mempi-doors")
    none = [trial(episode(("a",), n >= 2), instance=n) for n in range(4)]
    said = [
        AdviceLine(decision="generate", p_generate=None, hint_tokens=2, cosine=0.9 - n / 10) for n in range(5)
    ]
    rag = [
        msgspec.structs.replace(trial(episode(("a",), n < 2), instance=n), advice=[said[n]]) for n in range(5)
    ]
    assert gate_of(config, none, rag).threshold == pytest.approx(0.8)
    assert gate_of(config, none, []).threshold == float("inf")


def test_a_mixtures_task_is_known_under_its_domains_name_too() -> None:
    of = {"small": "doors", "": "mixture"}
    assert task_names("mixture", "@small/hall-attic", of) == {
        ("mixture", "@small/hall-attic"),
        ("doors", "hall-attic"),
    }
    assert task_names("doors", "hall-attic", {"": "doors"}) == {("doors", "hall-attic")}


def test_a_mixtures_bank_may_not_hold_a_test_task_of_one_of_its_environments(tmp_path: Path) -> None:
    held = bank(tmp_path / "bank.jsonl", split=Split.EVAL)
    held.write_bytes(held.read_bytes().replace(b'"split":"eval"', b'"split":"train"'))
    with pytest.raises(ConfigError, match="records of test tasks"):
        ask(tmp_path, which="mempi-mixture", bank=held)
