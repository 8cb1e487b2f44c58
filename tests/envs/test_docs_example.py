"""The example environment in docs/environments.md keeps the contract."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from envs import registry
from envs.base import EnvSpec, EpisodeRecord, Step, View
from envs.selftest import selftest
from tests.envs import contract

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAME = "documented_guess"


@pytest.fixture
def documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The example as a module that the registry can import."""
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "environments.md").read_text(), re.DOTALL)
    assert len(block.splitlines()) < 80
    assert len([line for line in block.splitlines() if line.strip()]) < 60
    path = tmp_path / f"{NAME}.py"
    path.write_text(block)
    found = importlib.util.spec_from_file_location(NAME, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, NAME, module)
    found.loader.exec_module(module)
    entry = EnvSpec(name="guess", summary="Find a number", module=NAME, light=True)
    monkeypatch.setitem(registry.ENVIRONMENTS, "guess", entry)
    return "guess"


def test_the_documented_example_keeps_the_contract(documented: str) -> None:
    env = registry.make(documented, {})
    wins = ["50", "25", "x", "37"]
    assert contract.check_restart(env, 37, wins)[-1][4] is True
    contract.check_hostile(env, 37, wins)
    contract.check_close(lambda: registry.make(documented, {}), 37, wins)
    contract.check_many_episodes(
        env, lambda env, index: contract.check_restart(env, index % 100 + 1, wins) and None
    )
    assert all(finding.good for finding in selftest(documented, {}))


def test_the_documented_examples_splits_prompts_and_options(documented: str) -> None:
    train, held = (registry.instances(documented, {}, split) for split in registry.SPLITS)
    assert not set(train) & set(held)
    style = registry.style(documented, {})
    step = Step("Your first guess?", "<action>50</action>", ("50",), 0.0)
    first = style.act_prompt(View("Your first guess?"))
    assert style.act_prompt(View("Lower.", (step,)))[: len(first)] == first
    assert style.parse_action("<action>50</action>").text == "50"
    assert style.summarise(EpisodeRecord(0, (step,), "Lower.", False, "failure")) == "You tried 50"
    with pytest.raises(registry.EnvSetupError, match="highest=1"):
        registry.validate_options(documented, {"highest": 1})


def test_every_environment_is_in_the_index() -> None:
    text = (DOCS / "environments.md").read_text()
    for name in ("minesweeper", "sokoban", "lab-db", "lab-os"):
        assert f"`{name}`" in text
