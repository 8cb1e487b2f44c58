"""`trials.jsonl`: what a trial leaves, what a crash or a resume does to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentmem.evaluation.lines import TrialWriter, line_of, read_lines, truncate_after
from agentmem.failures import ConfigError
from agentmem.trajectory import Episode, Mode, Split, StopReason, Task, Trial, Turn, TurnKind
from tests.evaluation.made import outcome


def act(observation: str, *actions: str) -> Turn:
    ids = (7, 8)
    return Turn(
        kind=TurnKind.ACT,
        policy="agent",
        prompt_ids=(1, 2, 3),
        response_ids=ids,
        logprobs=(-0.1,) * 2,
        versions=(0,) * 2,
        observation=observation,
        actions=actions,
        invalid=not actions,
    )


def played(*turns: Turn) -> Trial:
    episode = Episode(
        index=0, initial_observation="o", turns=turns, stop=StopReason.FAILURE, reward=0.0, score=0.5
    )
    return Trial(
        ticket="t",
        task=Task(environment="e", instance="i", split=Split.EVAL),
        member=0,
        group_size=1,
        mode=Mode(),
        episodes=(episode,),
        wall_s=1.5,
    )


def test_a_line_holds_what_the_figures_need() -> None:
    line = line_of(played(act("x", "up", "left"), act("y")), "with_memory", 3, sample=1, update=9)
    (episode,) = line.episodes
    assert episode.actions == ["up; left", ""]
    assert (episode.invalid, episode.stop, episode.score) == (1, "failure", 0.5)
    assert (line.turns, line.tokens, line.prompt_tokens, line.wall_s) == (2, {"act": 4}, 6, 1.5)
    assert (line.instance, line.seed, line.sample, line.update) == ("i", 3, 1, 9)
    assert line.solved == [False]


def test_the_path_tells_sequences_of_observation_and_action_apart() -> None:
    plays = [
        played(act("x", "up")),
        played(act("x", "down")),
        played(act("y", "up")),
        played(act("xu", "p")),
        played(act("x", "up"), act("x", "up")),
        played(),
    ]
    paths = [line_of(p, "c", 0).episodes[0].path for p in plays]
    assert len(set(paths)) == len(plays)
    assert paths[0] == line_of(played(act("x", "up")), "other", 5).episodes[0].path


def test_lines_come_back_and_the_later_of_two_plays_counts(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    first, again, other = outcome(0, instance=1), outcome(1, instance=1), outcome(2, instance="x", update=5)
    with TrialWriter(path) as writer:
        writer.append([first, other])
        writer.append([again])
    assert read_lines(path) == [again, other]


def test_a_torn_line_is_left_out_and_cut_off_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    with TrialWriter(path) as writer:
        writer.append([outcome(1, instance=1), outcome(2, instance=2)])
    path.write_bytes(path.read_bytes()[:-20])
    assert [line.instance for line in read_lines(path)] == [1]
    with TrialWriter(path) as writer:
        writer.append([outcome(3, instance=3)])
    assert [line.instance for line in read_lines(path)] == [1, 3]


def test_a_resume_drops_the_lines_of_weights_that_are_lost(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    truncate_after(path, 3)
    assert not path.exists()
    with TrialWriter(path) as writer:
        writer.append([outcome(1, instance=n, update=n) for n in range(5)])
    path.write_bytes(path.read_bytes() + b'{"torn')
    truncate_after(path, 2)
    assert [line.update for line in read_lines(path)] == [0, 1, 2]
    assert [entry.name for entry in tmp_path.iterdir()] == ["trials.jsonl"]


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "holds no trial"), (b'{"record": "eval"}\n', "line 1"), (b"\xff\n", "line 1")],
)
def test_another_file_is_refused_by_name(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=says) as caught:
        read_lines(path)
    assert "some.jsonl" in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gone.jsonl"):
        read_lines(tmp_path / "gone.jsonl")
