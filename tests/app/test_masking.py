"""A piece of the first episode's memory is hidden from the second, and nothing else is changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.rollout.memory import EpisodeMemories, MemoryMode
from agentmem.app.evaluation.masking import check_masks, mask_record, ticket_of
from agentmem.config import load_config
from agentmem.failures import ConfigError
from agentmem.trajectory import Episode, Mode, Split, StopReason, Task, Trial, Turn, TurnKind
from envs.base import EpisodeMemory, PromptStyle
from envs.minesweeper import Options, style
from tests.evaluation.made import outcome

TEXT, COMPACT = style(Options()), style(Options(size=4, format="compact"))
SUMMARY = "You opened: (1,1).\n(1,1) was a mine.\nThe board at the end:\nRow 1: * ?"
SAID = "Avoid (1,1), it is a mine."


def turn(kind: TurnKind, response: str = "") -> Turn:
    return Turn(kind=kind, policy="agent", response=response, observation="Row 1: ? ?")


def played(
    memory: str, episodes: int = 2, summary: str = SUMMARY, said: str = f"<remark>{SAID}</remark>"
) -> Trial:
    return Trial(
        ticket="eval-0-with_memory-18f-00007-1",
        task=Task(environment="minesweeper", instance="i", split=Split.EVAL, group="eval-0"),
        member=1,
        group_size=2,
        mode=Mode(episodes=3, memory=memory),
        episodes=tuple(
            Episode(
                index=n,
                initial_observation="Row 1: ? ?",
                turns=(turn(TurnKind.ACT),),
                stop=StopReason.FAILURE,
                reward=0.0,
                summary=summary if memory in ("history", "both") else "",
                final_observation="Row 1: * ?",
            )
            for n in range(episodes)
        ),
        reflections=(turn(TurnKind.REFLECT, said),) if memory in ("reflection", "both") else (),
    )


def remembers(trial: Trial, mask: str, style: PromptStyle = TEXT) -> tuple[EpisodeMemory, ...]:
    """What the second episode of the masked trial knows of the first."""
    ticket = ticket_of(trial, mask, style, "batch")
    assert ticket is not None
    said = [style.parse_reflection(t.response).text for t in ticket.reflected]
    return EpisodeMemories(MemoryMode.named(ticket.mode.memory)).recall(ticket.played, said)


WHOLE = EpisodeMemory(index=0, success=False, summary=SUMMARY, reflection=SAID)


@pytest.mark.parametrize(
    ("memory", "mask", "left"),
    [
        ("both", "all", ()),
        ("both", "nothing", (WHOLE,)),
        ("both", "summary", (replace(WHOLE, summary=None),)),
        ("both", "reflection", (replace(WHOLE, reflection=None),)),
        ("both", "control", (replace(WHOLE, reflection=SUMMARY[: len(SAID)]),)),
        ("both", "line:2", (replace(WHOLE, summary=SUMMARY.replace("(1,1) was a mine.\n", "")),)),
        ("history", "summary", (replace(WHOLE, summary="", reflection=None),)),
        ("reflection", "reflection", (replace(WHOLE, summary=None, reflection=""),)),
        ("reflection", "all", ()),
    ],
)
def test_a_mask_hides_its_piece_and_leaves_the_others(
    memory: str, mask: str, left: tuple[EpisodeMemory, ...]
) -> None:
    assert remembers(played(memory), mask) == left


def test_without_a_summary_in_memory_the_control_is_cut_from_the_environments_own() -> None:
    (left,) = remembers(played("reflection"), "control")
    assert left.reflection == "You opened: nothing.\n(1,1)"
    assert len(left.reflection) == len(SAID)
    assert left.summary is None


def test_the_ticket_goes_on_behind_the_first_episode_alone() -> None:
    trial = played("both", episodes=3)
    ticket = ticket_of(trial, "reflection", TEXT, "batch")
    assert ticket is not None
    assert ticket.id == "batch-00007-1"
    assert ticket.played == trial.episodes[:1]
    assert (ticket.member, ticket.group_size, ticket.task.instance) == (1, 2, "i")
    assert (ticket.task.group, ticket.task.split) == ("batch", Split.EVAL)
    assert (ticket.mode.episodes, ticket.mode.memory) == (3, "history")


def test_trials_without_the_piece_take_no_part() -> None:
    assert ticket_of(played("both", episodes=1), "all", TEXT, "batch") is None
    assert ticket_of(played("history"), "line:5", TEXT, "batch") is None
    assert ticket_of(played("reflection", said="no tag"), "control", TEXT, "batch") is None


def test_a_control_that_the_format_can_not_hold_is_refused() -> None:
    with pytest.raises(ConfigError, match="can't hold"):
        ticket_of(played("both", summary="word", said="(1,1)"), "control", COMPACT, "batch")


@pytest.mark.parametrize(
    ("mask", "overrides", "says"),
    [
        ("brain", [], "known are reflection"),
        ("line:0", [], "known are"),
        ("reflection", [], "'history', which holds no reflection"),
        ("summary", ["rollout.memory=reflection"], "'reflection', which holds no summary"),
        ("all", ["evaluation.episodes=1"], "evaluation.episodes is 1"),
        ("all", ["evaluation.conditions=[without_memory]"], "must hold with_memory"),
    ],
)
def test_a_mask_that_hides_nothing_is_refused(mask: str, overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_masks(load_config("lamer-minesweeper", overrides), [mask])


def test_the_record_says_how_far_success_falls() -> None:
    played_with = [outcome(2, instance=n) for n in range(4)]
    record = mask_record("all", played_with, [outcome(0, instance=n) for n in range(4)])
    assert (record.remembered, record.masked, record.difference) == (1.0, 0.0, -1.0)
    assert (record.trials, record.tasks, record.worse, record.p) == (4, 4, 4, 0.125)
    with pytest.raises(ConfigError, match="of 4 trials 4 had a second episode"):
        mask_record("line:9", played_with, [])
