"""What the trial loop does with tips, and with memory that doesn't fit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from actors.rollout.local_env import LocalEnvs
from actors.rollout.protocols import Reply
from actors.rollout.strategies import strategy_of
from actors.rollout.trial import Limits, play_trial
from agentmem.failures import ConfigError
from agentmem.memory.modes import ModeDraw, UpdateMode
from agentmem.trajectory import Episode, Mode, StopReason, Trial, TurnKind
from envs.base import Prompt, View
from tests.rollout.worlds import Hall, HallStyle, ScriptedPolicy, ticket


class TippedStyle(HallStyle):
    """Shows tips and memory in front."""

    def act_prompt(self, view: View) -> Prompt:
        tips = "".join(f"<{tip}>" for tip in view.tips)
        memory = "".join(f"[{m.index}]" for m in view.memory)
        return f"{tips}{memory} {view.observation}"


class TippedHall(Hall):
    style = TippedStyle()


class StudiousPolicy(ScriptedPolicy):
    """A scripted policy that gives the student prompt's ids, too."""

    async def respond(
        self, prompt: Prompt, kind: TurnKind, student: Prompt | None = None, view: View | None = None
    ) -> Reply | None:
        reply = await super().respond(prompt, kind)
        if reply is None or student is None:
            return reply
        assert isinstance(student, str)
        return Reply(
            **{f: getattr(reply, f) for f in reply.__struct_fields__}
            | {"student_prompt_ids": tuple(student.encode())}
        )


@dataclass
class Book:
    """A book of tips as a trial sees it."""

    texts: tuple[str, ...] = ("look left", "mind the wall")
    opened: int = 0
    asked: list[str] = field(default_factory=list)
    over: list[tuple[Episode, View]] = field(default_factory=list)

    async def open(self) -> None:
        self.opened += 1

    async def recall(self, view: View) -> tuple[tuple[str, ...], str]:
        self.asked.append(view.observation)
        return self.texts, f"hall@{self.opened}"

    def finished(self, episode: Episode, view: View) -> None:
        self.over.append((episode, view))


def play(
    policy: ScriptedPolicy, book: Book | None, mode: Mode, *, instance: str = "lr", turns: int = 5
) -> Trial:
    async def playing() -> Trial:
        env = await LocalEnvs(TippedHall).open()
        order = ticket(instance)
        return await play_trial(order, env, policy, strategy_of(mode), Limits(max_turns=turns), tips=book)

    return asyncio.run(playing())


def empo2(draw: str, *, episodes: int = 1, memory: str = "none") -> Mode:
    return Mode(method="empo2", episodes=episodes, memory=memory, draw=draw, tips="train")


def test_tips_are_shown_in_the_modes_with_tips_alone_and_turns_name_what_they_read() -> None:
    for draw in ("plain", "tips", "off_policy"):
        policy, book = StudiousPolicy(["left", "right"]), Book()
        trial = play(policy, book, empo2(draw))
        (turn, _) = trial.episodes[0].turns
        shown = draw != "plain"
        assert ("<look left>" in policy.asked[0][1]) == shown
        assert turn.memory_snapshot == ("hall@1" if shown else "")
        assert book.asked == (["door 0 of 2", "door 1 of 2"] if shown else [])
        assert (turn.student_prompt_ids is not None) == (draw == "off_policy")


def test_the_student_prompt_is_the_same_view_without_tips() -> None:
    trial = play(StudiousPolicy(["left", "right"]), Book(), empo2("off_policy"))
    first, second = trial.episodes[0].turns
    assert bytes(first.student_prompt_ids or ()).decode() == " door 0 of 2"
    assert bytes(second.prompt_ids).decode() == "<look left><mind the wall> door 1 of 2"


@pytest.mark.parametrize("draw", ["plain", "tips", "off_policy"])
def test_every_episode_is_handed_over_for_a_tip_in_every_mode(draw: str) -> None:
    book = Book()
    trial = play(StudiousPolicy(["right", "left", "right"]), book, empo2(draw, episodes=2))
    assert [episode.stop for episode, _ in book.over] == [StopReason.FAILURE, StopReason.SUCCESS]
    assert [episode for episode, _ in book.over] == list(trial.episodes)
    assert [len(view.history) for _, view in book.over] == [1, 2]
    assert book.over[1][1].observation == trial.episodes[1].final_observation


def test_a_tip_is_asked_for_with_the_tips_that_the_last_turn_saw() -> None:
    book = Book()
    play(StudiousPolicy(["left", "right"]), book, empo2("tips"))
    play(StudiousPolicy(["left", "right"], longest_prompt=24), book, empo2("tips"))
    play(StudiousPolicy(["left", "right"]), book, empo2("plain"))
    assert [view.tips for _, view in book.over] == [("look left", "mind the wall"), ("look left",), ()]


def test_memory_gives_way_to_the_situation_worst_tip_first_then_the_oldest_episode() -> None:
    """A prompt has at most 17 characters: `[1] door 0 of 2` has 15, a tip or another episode is too much."""
    policy = StudiousPolicy(["right", "right", "left", "right"], longest_prompt=17)
    trial = play(policy, Book(), empo2("tips", episodes=3, memory="history"))
    assert trial.failure is None
    prompts = [prompt for _, prompt in policy.asked]
    assert prompts == [" door 0 of 2", "[0] door 0 of 2", "[1] door 0 of 2", "[1] door 1 of 2"]
    dropped = [turn.memory_dropped for episode in trial.episodes for turn in episode.turns]
    assert dropped == [2, 2, 3, 3]
    assert trial.success


def test_a_tip_that_fits_stays_when_the_one_with_the_lower_score_goes() -> None:
    policy = StudiousPolicy(["left", "right"], longest_prompt=24)
    trial = play(policy, Book(), empo2("tips"))
    assert policy.asked[0][1] == "<look left> door 0 of 2"
    assert [turn.memory_dropped for turn in trial.episodes[0].turns] == [1, 1]


def test_a_prompt_that_does_not_fit_without_memory_ends_the_episode() -> None:
    trial = play(StudiousPolicy([], longest_prompt=5), Book(), empo2("tips"))
    assert trial.episodes[0].stop is StopReason.CONTEXT_EXHAUSTED
    assert trial.failure is None


def test_modes_are_drawn_alike_again_with_the_shares_that_p_and_q_ask_for() -> None:
    draw = ModeDraw(seed=3, p=0.25, q=2 / 3)
    modes = [draw.of(update) for update in range(4000)]
    assert modes == [ModeDraw(seed=3, p=0.25, q=2 / 3).of(update) for update in range(4000)]
    assert modes != [ModeDraw(seed=4, p=0.25, q=2 / 3).of(update) for update in range(4000)]
    share = {mode: modes.count(mode) / len(modes) for mode in UpdateMode}
    assert share[UpdateMode.PLAIN] == pytest.approx(0.75, abs=0.02)
    assert share[UpdateMode.OFF_POLICY] == pytest.approx(1 / 6, abs=0.02)
    assert {ModeDraw(0, p=0.0).of(u) for u in range(100)} == {UpdateMode.PLAIN}
    assert {ModeDraw(0, p=1.0, q=1.0).of(u) for u in range(100)} == {UpdateMode.OFF_POLICY}
    with pytest.raises(ValueError, match=r"q is 1\.5: a probability lies in \[0, 1\]"):
        ModeDraw(0, q=1.5)


def test_an_unknown_mode_of_an_update_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="the mode of an update is 'both'"):
        strategy_of(empo2("both"))
