"""A memory policy for any Python program, with a real engine in its process."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from actors.advisor import Advisor
from agentmem.chat.decision import Decision
from agentmem.failures import ConfigError, ModelError
from envs import registry
from envs.doors import Options
from envs.doors.compact import vocabulary
from tests.learner_group.advised import save_memory_model

OPTIONS = {"format": "compact"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_memory_model(tmp_path_factory.mktemp("memory"), words=vocabulary(Options(format="compact")))


@pytest.mark.parametrize(("threshold", "decision"), [(-1e9, Decision.GENERATE), (1e9, Decision.ABSTAIN)])
def test_it_says_decision_hint_and_what_they_took(model: str, threshold: float, decision: Decision) -> None:
    settings: dict[str, Any] = {"backend": "torch", "context_length": 64, "max_tokens": 3}
    with Advisor.load(model, env="doors", options=OPTIONS, threshold=threshold, **settings) as advisor:
        said = advisor.advise("walk", "hall")
        assert (said.decision, said.late, said.version) == (decision, False, 0)
        assert (said.tokens > 0) is (decision is Decision.GENERATE) or said.text == ""
        assert said.p_generate is not None
        assert 0 < said.p_generate < 1
        assert said.latency_s > 0
        several = advisor.advise_many([("walk", room) for room in ("hall", "attic", "hall")])
        assert several[0].p_generate == pytest.approx(several[2].p_generate, abs=1e-4)
        assert advisor.stats().requests == 4
        with pytest.raises(ConfigError, match="reads text alone"):
            advisor.advise("walk", "hall", image=b"png")
    advisor.close()  # once more


def test_questions_asked_at_once_share_the_engines_steps_and_may_have_limits_of_their_own(model: str) -> None:
    settings: dict[str, Any] = {"backend": "torch", "context_length": 64, "max_tokens": 3}
    with Advisor.load(model, env="doors", options=OPTIONS, **settings) as advisor:
        asked = [advisor.submit("walk", "hall", threshold=-1e9) for _ in range(16)]
        assert {future.result().decision for future in asked} == {Decision.GENERATE}
        # One after the other, each would take a step for its decision and at least one for its hint.
        assert advisor._engine.stats().steps < 2 * 16
        assert advisor.advise("walk", "hall", threshold=1e9).decision is Decision.ABSTAIN
        assert advisor.advise("walk", "hall", threshold=-1e9, max_tokens=1).tokens <= 1
        assert advisor.advise("walk", "hall", timeout_s=1e-6).late
        for wrong in ({"max_tokens": 4}, {"max_tokens": 0}, {"timeout_s": 0.0}, {"threshold": math.nan}):
            with pytest.raises(ConfigError, match=next(iter(wrong))):
                advisor.advise("walk", "hall", **wrong)


def test_a_policy_for_several_environments_is_told_which_one_a_question_is_about(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    options: dict[str, Any] = {
        "domains": {"doors": {"options": OPTIONS}, "scout": {"options": {"format": "compact"}}}
    }
    start = registry.warm_start("mixture", options)
    assert start is not None
    model = save_memory_model(tmp_path_factory.mktemp("mixture"), words=list(start.vocabulary))
    settings: dict[str, Any] = {"backend": "torch", "context_length": 64, "max_tokens": 3}
    with Advisor.load(model, env="mixture", options=options, **settings) as advisor:
        room, same_room = (advisor.advise("walk", "hall", domain="doors") for _ in range(2))
        field = advisor.advise("dig", "hall", domain="scout")
        assert room.p_generate == pytest.approx(same_room.p_generate, abs=1e-4)
        assert room.p_generate != pytest.approx(field.p_generate, abs=1e-6)
        with pytest.raises(ConfigError, match="domain is missing: must be one of doors, scout"):
            advisor.advise("walk", "hall")
        with pytest.raises(ConfigError, match="domain is 'cellar': must be one of doors, scout"):
            advisor.advise("walk", "hall", domain="cellar")


def test_a_policy_for_one_environment_knows_no_domains(model: str) -> None:
    with (
        Advisor.load(model, env="doors", options=OPTIONS, backend="torch", context_length=64) as advisor,
        pytest.raises(ConfigError, match="domain is 'doors': it advises on one environment"),
    ):
        advisor.advise("walk", "hall", domain="doors")


def test_a_model_without_decisions_is_refused(model: str) -> None:
    with pytest.raises(ModelError, match=r"\[GENERATE\]"):
        Advisor.load(Path(model).parent / "plain", env="doors", options=OPTIONS, backend="torch")
