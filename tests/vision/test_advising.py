"""A memory policy that sees, from a picture to a hint: any program's, and an agent's in a trial."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.advisor import Advisor
from actors.rollout.advice import AgentAdvice
from actors.rollout.advising import AdviceRequest, Advised
from actors.rollout.env_calls import situation_of
from actors.rollout.protocols import Situation
from agentmem.chat.decision import Decision
from agentmem.failures import ConfigError, FailureKind, ModelError
from agentmem.memory.advisor import late_turn
from agentmem.trajectory import Mode, Task, Ticket
from agentmem.vision.picture import PictureError, picture_of
from agentmem.vision.reader import PictureReader
from envs.doors import Options, make, style
from envs.doors.compact import vocabulary
from tests.learner_group.advised import save_memory_model
from tests.vision.seeing import picture, pixels, save_seeing_model

DOORS = {"format": "compact", "screenshot": True}
OPTIONS = Options(format="compact", screenshot=True)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_seeing_model(tmp_path_factory.mktemp("policy") / "model", words=vocabulary(OPTIONS))


@pytest.fixture(scope="module")
def advisor(policy: str) -> Iterator[Advisor]:
    settings = {"backend": "torch", "context_length": 64, "max_tokens": 3, "temperature": 1.0}
    with Advisor.load(policy, env="doors", options=DOORS, threshold=-1e9, **settings) as made:  # type: ignore[arg-type]
        yield made


def test_a_picture_goes_in_and_a_hint_comes_out(advisor: Advisor, tmp_path: Path) -> None:
    file = io.BytesIO()
    pixels(0).save(tmp_path / "room.png")
    pixels(0).save(file, "PNG")
    forms = [pixels(0), file.getvalue(), tmp_path / "room.png", str(tmp_path / "room.png"), picture(0)]
    said = [advisor.advise("walk", "hall", image=form) for form in forms]
    assert {one.decision for one in said} == {Decision.GENERATE}
    assert not any(one.late for one in said)
    first = said[0].p_generate
    assert first is not None
    assert [one.p_generate for one in said] == pytest.approx([first] * len(forms), abs=1e-5)


def test_the_decision_depends_on_the_picture(advisor: Advisor) -> None:
    seen = [advisor.advise("walk", "hall", image=pixels(n)).p_generate for n in range(4)]
    blind = advisor.advise("walk", "hall").p_generate
    assert len({round(p or 0.0, 4) for p in (*seen, blind)}) == 5
    several = advisor.advise_many([("walk", "hall", pixels(n)) for n in range(4)])
    assert [one.p_generate for one in several] == pytest.approx(seen, abs=1e-4)


@pytest.mark.parametrize(
    ("image", "told"), [("nowhere.png", "nowhere.png: No such file"), (b"hello", "no readable image")]
)
def test_a_picture_that_can_t_be_used_is_an_error_and_no_abstention(
    advisor: Advisor, image: str | bytes, told: str
) -> None:
    with pytest.raises(PictureError, match=told):
        advisor.advise("walk", "hall", image=image)


def test_a_picture_that_leaves_no_room_is_an_error(advisor: Advisor, policy: str) -> None:
    tokens = len(PictureReader(policy).placed(picture(0)))
    settings = {"backend": "torch", "context_length": tokens + 4, "max_tokens": 3}
    with (
        Advisor.load(policy, env="doors", options=DOORS, **settings) as small,  # type: ignore[arg-type]
        pytest.raises(PictureError, match=f"takes {tokens} tokens, a prompt may have {tokens}"),
    ):
        small.advise("walk", "hall", image=pixels(0))


def test_a_policy_that_reads_text_alone_says_so(tmp_path: Path) -> None:
    model = save_memory_model(tmp_path, words=vocabulary(OPTIONS))
    with (
        Advisor.load(model, env="doors", options={"format": "compact"}, backend="torch", context_length=64,
                     max_tokens=3) as advisor,
        pytest.raises(ConfigError, match="reads text alone"),
    ):  # fmt: skip
        advisor.advise("walk", "hall", image=pixels(0))


class Recorder:
    """A generator that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[AdviceRequest] = []

    def next_id(self) -> str:
        return str(len(self.asked))

    async def ask(self, request: AdviceRequest) -> Advised:
        self.asked.append(request)
        return Advised(id=request.id, turn=late_turn(request.observation))


async def test_an_agent_hands_the_first_observation_s_screenshot_on() -> None:
    env = make(OPTIONS)
    situation = situation_of(env, *env.reset(options={"instance": "attic-hall-cellar-chapel-kitchen"}))
    assert situation.screenshot is not None
    generators = Recorder()
    shared = AgentAdvice(generators, "doors", style(OPTIONS))
    ticket = Ticket(id="t", task=Task(environment="doors", instance=1), member=0, mode=Mode(advice="free"))
    advisor = shared.of(ticket)
    assert advisor is not None
    await advisor.advise(situation)
    await advisor.advise(Situation("hall"))
    assert generators.asked[0].image == picture_of(situation.screenshot)
    assert generators.asked[1].image is None
    with pytest.raises(PictureError) as caught:  # a data failure: it isn't tried again
        await advisor.advise(Situation("hall", screenshot=b"no png"))
    assert caught.value.kind is FailureKind.DATA


def test_models_for_a_run_are_looked_at_before_it_starts(policy: str, tmp_path: Path) -> None:
    from agentmem.app.models.resolve import resolve
    from agentmem.config import PolicyConfig

    def found(model: str, **options: object) -> Path:
        chosen = PolicyConfig(model=model, context_length=64)
        return resolve(chosen, "doors", {**DOORS, **options}, tmp_path / "cache", advises=True)

    assert found(policy) == Path(policy).resolve()
    blind = save_memory_model(tmp_path / "blind", words=vocabulary(OPTIONS))
    for model in (blind, "tiny"):
        with pytest.raises(ModelError, match=r"env.options.screenshot is true, but .* reads text alone"):
            found(model)
    with pytest.raises(ModelError, match=r"'tiny-vision': it is made for .*, not for 'doors' with these"):
        found("tiny-vision", screenshot=False)


def test_a_large_model_s_directory_gets_the_decisions_and_still_sees(tmp_path: Path) -> None:
    from agentmem.chat.decision import DecisionTokens
    from agentmem.chat.decision_model import write_memory_model

    plain = save_seeing_model(tmp_path / "plain", decides=False)
    tokens = write_memory_model(plain, tmp_path / "memory")
    assert DecisionTokens.of(tmp_path / "memory") == tokens
    assert PictureReader(tmp_path / "memory").check().placed(picture()) == PictureReader(plain).placed(
        picture()
    )


def test_arms_that_would_ask_without_the_pictures_are_refused(tmp_path: Path) -> None:
    from agentmem.app.evaluation.arms.checking import checked

    asked = {"arms": None, "stage1": None, "full": None, "tasks": None, "known": (), "overrides": ()}
    with pytest.raises(ConfigError, match=r"env.options.screenshot is true: arms ask with text alone"):
        checked(
            "mempi-doors-vision",
            bank=tmp_path / "bank.jsonl",
            out=tmp_path / "out",
            seed=0,
            fit_tasks=1,
            **asked,  # type: ignore[arg-type]
        )
