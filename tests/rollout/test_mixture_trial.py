"""A trial in a mixture: prompts, players and advice are those of its instance's domain."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from actors.rollout.advice import AgentAdvice
from actors.rollout.advising import AdviceRequest, Advised
from actors.rollout.env_wire import EnvSettings
from actors.rollout.local_env import LocalEnvs
from actors.rollout.scripted import ScriptedPolicy
from actors.rollout.strategies import strategy_of
from actors.rollout.tips import book_of
from actors.rollout.trial import Limits, play_trial
from agentmem.evaluation.lines import line_of
from agentmem.trajectory import StopReason, Task, Ticket, Trial, Turn, TurnKind
from envs.domains import named
from envs.doors.house import rule_of
from envs.doors.options import Options
from tests.rollout.worlds import ScriptedPolicy as Policy
from tests.rollout.worlds import ticket

DOORS: dict[str, Any] = {"rooms": 2, "doors": 3, "format": "compact"}
OPTIONS: dict[str, Any] = {
    "domains": {
        "doors": {"options": DOORS},
        "scout": {"max_turns": 2, "options": {"digs": 3, "format": "compact"}},
    }
}
SETTINGS = EnvSettings.named("mixture", OPTIONS)
LIMITS = Limits(max_turns=5)
HOUSE = "hall-kitchen"


class Generators:
    """Answers every question with the same hint, and keeps the questions."""

    def __init__(self, hint: str) -> None:
        self.hint, self.asked = hint, list[AdviceRequest]()

    def next_id(self) -> str:
        return str(len(self.asked))

    async def ask(self, request: AdviceRequest) -> Advised:
        self.asked.append(request)
        turn = Turn(kind=TurnKind.ADVISE, policy="memory", response=self.hint, actions=("generate",), gap=1.0)
        return Advised(id=request.id, turn=turn)


def order(domain: str, instance: str | int, episodes: int = 1) -> Ticket:
    made = ticket(named(domain, instance), episodes=episodes, memory="none", env="mixture")
    return replace(made, mode=replace(made.mode, method="mempi", advice="free"))


async def play(asked: Ticket, policy: Any, hint: str = "") -> tuple[Trial, Generators]:
    generators = Generators(hint)
    advice = AgentAdvice(generators, "mixture", SETTINGS.style())
    env = await LocalEnvs(SETTINGS.make).open()
    trial = await play_trial(asked, env, policy, strategy_of(asked.mode), LIMITS, advisor=advice.of(asked))
    await env.close()
    return trial, generators


async def test_a_scripted_agent_of_each_domain_is_advised_in_its_own_world() -> None:
    player = ScriptedPolicy("agent", SETTINGS.scripted_agent())
    known = Options(**DOORS)
    right = rule_of(0, known.kind_words, known.door_words)["hall"]
    trial, generators = await play(order("doors", HOUSE), player, f"hall {right}")
    assert trial.success
    assert [(r.domain, r.observation) for r in generators.asked] == [("doors", "hall")]
    trial, generators = await play(order("scout", 70000), player, "(4,4)")
    assert trial.episodes[0].turns[0].actions == ("(4,4)",)
    assert [r.domain for r in generators.asked] == ["scout"]
    assert line_of(trial, "with_memory", 0).domain == "scout"


async def test_a_models_prompts_are_the_domains_and_a_domains_limit_of_turns_holds() -> None:
    policy = Policy(lambda prompt, kind: "(1,1)")
    trial, _ = await play(order("scout", 70001), policy)
    assert trial.episodes[0].stop is StopReason.STEP_LIMIT
    assert len(trial.episodes[0].turns) == 2
    assert all(prompt.startswith("Try 1 now ") for _, prompt in policy.asked)
    policy = Policy(lambda prompt, kind: "red")
    trial, _ = await play(order("doors", HOUSE), policy, "hall blue")
    assert policy.asked[0][1] == "tips: blue Room hall door:"
    assert not any(turn.invalid for turn in trial.episodes[0].turns)


def test_tips_of_a_whole_environment_are_kept_by_domain() -> None:
    books = {book_of(Task(environment="mixture", instance=named(d, 1)), "environment") for d in ("a", "b")}
    assert books == {"mixture/a", "mixture/b"}
    assert book_of(Task(environment="doors", instance=HOUSE), "environment") == "doors"
