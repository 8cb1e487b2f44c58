from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentmem.app.cli import app
from agentmem.app.models.resolve import Servable, cached, check, resolve
from agentmem.chat import DecisionTokens
from agentmem.config import PolicyConfig
from agentmem.failures import ModelError

COMPACT = {"size": 4, "mines": 3, "format": "compact"}


def policy(model: object, **more: object) -> PolicyConfig:
    return PolicyConfig.model_validate({"model": str(model), "context_length": 64, **more})


def refused(model: object, env: str = "minesweeper", **more: object) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(policy(model, **more), env, COMPACT if env == "minesweeper" else {})
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def copy(tiny_model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_model, tmp_path / "model")


def edit(path: Path, **changes: object) -> None:
    file = path / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def test_a_directory_is_taken_as_it_is(copy: Path) -> None:
    assert resolve(policy(copy), "minesweeper", COMPACT) == copy.resolve()


@pytest.mark.parametrize("model", ["/no/such/model", "./nowhere", "~/none/here", "a/b/c"])
def test_a_path_that_is_not_there_is_one_clear_line(model: str) -> None:
    message = refused(model)
    assert model in message
    assert "no such directory" in message


def test_a_file_is_no_model(copy: Path) -> None:
    assert "this is a file" in refused(copy / "config.json")


def test_a_hub_name_that_cannot_be_had_is_one_clear_line() -> None:
    message = refused("nobody/no-such-model")
    assert "'nobody/no-such-model'" in message
    assert "hub" in message


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", "no weights"),
        ("tokenizer.json", "tokenizer.json"),
    ],
)
def test_a_missing_part_is_named(copy: Path, missing: str, named: str) -> None:
    (copy / missing).unlink()
    assert named in refused(copy)


def test_an_unreadable_config_is_one_clear_line(copy: Path) -> None:
    (copy / "config.json").write_text("{")
    assert "config.json can't be read" in refused(copy)


def test_a_vocabulary_smaller_than_the_tokenizers_is_refused(copy: Path) -> None:
    edit(copy, vocab_size=100)
    assert "don't belong together" in refused(copy)


def test_a_context_longer_than_the_model_reads_is_refused(copy: Path) -> None:
    message = refused(copy, context_length=513)
    assert "512" in message
    assert "context_length is 513" in message


def test_a_missing_chat_template_is_refused_only_where_messages_are_sent(copy: Path) -> None:
    (copy / "chat_template.jinja").unlink(missing_ok=True)
    file = copy / "tokenizer_config.json"
    config = json.loads(file.read_text())
    config.pop("chat_template", None)
    file.write_text(json.dumps(config))
    assert isinstance(check(copy, policy(copy), "minesweeper", COMPACT), Servable)
    assert "no chat template" in refused(copy, "sokoban")


def test_stage_1_begins_with_any_model_and_stage_2_takes_none_without_decisions(
    copy: Path, tmp_path: Path
) -> None:
    cache, asked = tmp_path / "cache", policy(copy)

    def resolved(begins: bool) -> Path:
        return resolve(asked, "minesweeper", COMPACT, cache, advises=True, begins=begins)

    with pytest.raises(ModelError, match=r"\[GENERATE\]") as told:
        resolved(begins=False)
    assert str(copy) in str(told.value)
    assert "\n" not in str(told.value)
    made = resolved(begins=True)
    assert DecisionTokens.of(made)
    assert resolved(begins=True) == made
    # The same name, another model: what was made of the first isn't taken for it.
    edit(copy, note="trained on")
    assert resolved(begins=True) != made


def test_a_memory_policy_without_stage_1_is_made_by_hand(copy: Path, tmp_path: Path) -> None:
    words = ["model", "memory", str(copy), "--out", str(tmp_path / "made")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert resolve(policy(tmp_path / "made"), "minesweeper", COMPACT, advises=True)
    assert "is there already" in str(CliRunner().invoke(app, words).exception)


def test_a_cache_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="set AGENTMEM_CACHE"):
        cached(tmp_path / "file", "kind", {}, lambda into: None)


def _make(root: Path, log: Path, act: Callable[[Path], None] | None = None) -> None:
    def make(into: Path) -> None:
        (into / "part").write_text("whole")
        with log.open("a") as lines:
            lines.write("made\n")
        if act:
            act(into)

    cached(root, "kind", {"a": 1}, make)


def _linger(into: Path) -> None:
    time.sleep(0.3)


def _hang(into: Path) -> None:
    time.sleep(600)


def test_concurrent_makers_make_it_once(tmp_path: Path) -> None:
    root, log = tmp_path / "cache", tmp_path / "log"
    makers = [multiprocessing.Process(target=_make, args=(root, log, _linger)) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(60)
    assert [maker.exitcode for maker in makers] == [0, 0, 0, 0]
    assert log.read_text() == "made\n"
    assert len([p for p in root.iterdir() if not p.name.startswith(".")]) == 1


def test_a_killed_maker_leaves_nothing_half_and_the_next_one_makes_it(tmp_path: Path) -> None:
    root, log = tmp_path / "cache", tmp_path / "log"
    maker = multiprocessing.Process(target=_make, args=(root, log, _hang))
    maker.start()
    deadline = time.monotonic() + 60
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert maker.pid is not None
    os.kill(maker.pid, signal.SIGKILL)
    maker.join(60)
    assert [p for p in root.iterdir() if not p.name.startswith(".")] == []
    _make(root, log)
    assert not list(root.glob(".*.making"))
    (made,) = [p for p in root.iterdir() if not p.name.startswith(".")]
    assert (made / "part").read_text() == "whole"


def test_a_failed_maker_leaves_nothing(tmp_path: Path) -> None:
    def fail(into: Path) -> None:
        (into / "part").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path, "kind", {}, fail)
    assert [p for p in tmp_path.iterdir() if p.suffix != ".lock"] == []
