"""Examples are few but telling, survive a restart, and read from top to bottom."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agentmem.app.reporting.examples import FIRST, LATEST, TURNED, Example, load_examples
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.reporting.show import (
    ExampleStore,
    render,
    render_list,
    select,
    show,
    show_run,
    write_page,
    write_text,
)
from agentmem.app.reporting.show_html import render_html
from agentmem.failures import AgentMemError, ConfigError, Failure, FailureKind
from agentmem.trajectory import Episode, Mode, StopReason, Task, Trial, Turn, TurnKind

NAN = float("nan")


def act(observation: str, response: str, reward: float, forced: int = 0) -> Turn:
    return Turn(
        kind=TurnKind.ACT,
        policy="agent",
        prompt_ids=(1, 2),
        response_ids=(5, 6),
        logprobs=(NAN, -0.5) if forced else (-0.1, -0.5),
        versions=(3, 4),
        forced=forced,
        observation=observation,
        response=response,
        actions=(response,),
        reward=reward,
    )


def episode(n: int, success: bool, turns: int = 1) -> Episode:
    return Episode(
        index=n,
        initial_observation=f"board{n}",
        turns=tuple(act(f"board{n}\n?{k}?", f"({n},{k})", float(success)) for k in range(turns)),
        stop=StopReason.SUCCESS if success else StopReason.FAILURE,
        success=success,
        reward=float(success),
        summary=f"mines: ({n},0)",
        final_observation=f"final{n}",
    )


def trial(ticket: str, outcomes: str = "lw", reflect: bool = False) -> Trial:
    """`outcomes`: l(ost) or w(on) for each episode."""
    reflection = Turn(kind=TurnKind.REFLECT, policy="agent", prompt_ids=(9,), response="avoid the corner")
    return Trial(
        ticket=ticket,
        task=Task(environment="minesweeper", instance=17),
        member=2,
        group_size=8,
        mode=Mode(episodes=3, memory="both" if reflect else "history"),
        episodes=tuple(episode(n, o == "w") for n, o in enumerate(outcomes)),
        reflections=(reflection,) * (len(outcomes) - 1) if reflect else (),
    )


def lines_of(example: Example) -> list[str]:
    return [line.strip() for line in render(example).splitlines()]


def test_a_trial_reads_in_the_order_of_play() -> None:
    text = render(Example(update=4, trial=trial("t", "lw", reflect=True)))
    order = [
        "trial t: minesweeper 17, train, member 3 of 8",
        "solved in episode 2; method lamer, memory both",
        "versions 3 to 4",
        "consumed by update 4",
        "episode 1 of at most 3",
        "board0\n    ?0?",
        "response: (0,0)",
        "action: (0,0)   reward: 0",
        "stopped: failure, reward 0",
        "final0",
        "remembered: mines: (0,0)",
        "reflection after episode 1",
        "response: avoid the corner",
        "episode 2 of at most 3",
        "memory of episode 1: mines: (0,0)",
        "reflection on episode 1: avoid the corner",
        "board1",
        "stopped: success, reward 1",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)


def test_advantages_and_prompts_stand_beside_their_turns() -> None:
    credit = {"advantages": [-0.5, None, 1.25], "version": 5, "loss_share": 0.0125, "dropped": 1}
    example = Example(
        update=4, trial=trial("t", "lw", reflect=True), credit=credit, prompts=("P0", "PR", "P1")
    )
    lines = lines_of(example)
    first, reflection, second = (lines.index(f"prompt: {p}") for p in ("P0", "PR", "P1"))
    assert lines[first + 2] == "action: (0,0)   reward: 0   advantage: -0.500"
    assert lines[reflection + 1] == "response: avoid the corner"
    assert "advantage" not in lines[reflection + 2]
    assert lines[second + 2].endswith("advantage: +1.250")
    assert "consumed by update 4 (to weight version 5), 1.25% of its loss" in lines
    assert "learner's dropped: 1" in lines


def test_an_episode_without_reflection_memory_shows_no_reflection_as_memory() -> None:
    text = render(Example(update=1, trial=trial("t", "lw")))
    assert "memory of episode 1: mines: (0,0)" in text
    assert "reflection" not in text


def test_a_failed_trial_names_its_failure() -> None:
    broken = Trial(
        ticket="t",
        task=Task(environment="m", instance=1),
        member=0,
        group_size=2,
        mode=Mode(episodes=3),
        episodes=(Episode(index=0, initial_observation="", turns=(), stop=StopReason.ENV_FAILURE),),
        failure=Failure(kind=FailureKind.INFRASTRUCTURE, what="worker died"),
    )
    text = render(Example(update=1, trial=broken))
    assert "failure (infrastructure): worker died" in text
    assert "stopped: env_failure, reward none" in text


def test_control_characters_of_a_response_do_not_reach_the_terminal() -> None:
    wild = Episode(
        index=0,
        initial_observation="",
        turns=(act("b", "\x1b[2J\x07left\r", 0.0),),
        stop=StopReason.STEP_LIMIT,
        reward=0.0,
    )
    played = Trial(
        ticket="t",
        task=Task(environment="m", instance=1),
        member=0,
        group_size=2,
        mode=Mode(),
        episodes=(wild,),
    )
    text = render(Example(update=1, trial=played))
    assert "left" in text
    assert not set(text) & {"\x1b", "\x07", "\r"}


def test_examples_survive_the_file_with_forced_tokens_and_credit(tmp_path: Path) -> None:
    forced = Episode(
        index=0, initial_observation="", turns=(act("b", "x", 0.0, 1),), stop=StopReason.FAILURE, reward=0.0
    )
    played = Trial(
        ticket="t",
        task=Task(environment="m", instance=1),
        member=0,
        group_size=2,
        mode=Mode(),
        episodes=(forced,),
    )
    with ExampleStore(tmp_path / "e", decode=lambda policy, ids: f"{policy}{list(ids)}") as store:
        store.offer(played, 3, {"advantages": [0.5]})
    (loaded,) = load_examples(tmp_path / "e")
    turn = loaded.trial.episodes[0].turns[0]
    assert (loaded.update, loaded.credit, loaded.prompts) == (3, {"advantages": [0.5]}, ("agent[1, 2]",))
    assert turn.logprobs is not None
    assert turn.logprobs[0] != turn.logprobs[0]
    assert turn.logprobs[1] == -0.5


def test_a_long_run_keeps_a_bounded_sample_of_first_latest_and_turned_trials(tmp_path: Path) -> None:
    store = ExampleStore(tmp_path / "e", interval_s=1e9)
    for update in range(1, 101):
        for n in range(32):
            turned = n == 31 and update <= 60
            store.offer(trial(f"{update:03}-{n:02}", "lw" if turned else "ll"), update)
    kept = store.examples()
    assert len(kept) == FIRST + LATEST + TURNED
    assert [e.update for e in kept[:FIRST]] == [1] * FIRST
    assert {e.update for e in kept if e.turned} == set(range(41, 61))
    assert {e.update for e in kept[-LATEST:]} == set(range(91, 101))


def test_the_file_is_written_at_most_every_interval_and_prompts_are_decoded_once(tmp_path: Path) -> None:
    time, decoded = [0.0], []

    def decode(policy: str, ids: object) -> str:
        decoded.append(policy)
        return "p"

    store = ExampleStore(tmp_path / "e", decode=decode, interval_s=10.0, now=lambda: time[0])
    store.offer(trial("a"), 1)
    assert not (tmp_path / "e").exists()
    time[0] = 11.0
    store.offer(trial("b"), 1)
    assert len(load_examples(tmp_path / "e")) == 2
    store.offer(trial("c"), 1)
    assert len(load_examples(tmp_path / "e")) == 2
    store.close()
    assert len(load_examples(tmp_path / "e")) == 3
    assert len(decoded) == 6


def test_a_resumed_run_goes_on_with_the_examples_and_replaces_what_is_played_again(tmp_path: Path) -> None:
    with ExampleStore(tmp_path / "e") as store:
        for update in range(1, 21):
            store.offer(trial(f"t{update}", "ll"), update)
    with ExampleStore(tmp_path / "e") as store:
        store.offer(trial("t20", "lw"), 20)
        store.offer(trial("t21", "ll"), 21)
    kept = load_examples(tmp_path / "e")
    assert [e.trial.ticket for e in kept] == [f"t{n}" for n in range(1, 22)]
    assert kept[19].trial.success


def test_without_a_wish_a_trial_with_memory_at_work_is_shown() -> None:
    examples = [
        Example(update=1, trial=trial("first", "w")),
        Example(update=2, trial=trial("reflected", "lw", reflect=True)),
        Example(update=3, trial=trial("turned", "lw")),
        Example(update=4, trial=trial("lost", "ll", reflect=True)),
    ]
    assert select(examples).trial.ticket == "reflected"
    assert select([examples[0], examples[2], examples[3]]).trial.ticket == "turned"
    assert select([examples[0], examples[3]]).trial.ticket == "lost"


def test_a_trial_is_chosen_by_its_id_or_its_number_in_the_list() -> None:
    examples = [Example(update=n, trial=trial(f"t{n}")) for n in range(3)]
    assert select(examples, "t2").trial.ticket == "t2"
    assert select(examples, "1").trial.ticket == "t0"
    assert render_list(examples).splitlines()[1].split() == (
        ["1", "0", "t0", "minesweeper", "17", "solved", "in", "episode", "2"]
    )


@pytest.mark.parametrize("which", ["0", "4", "t9"])
def test_an_unknown_trial_is_refused_with_what_is_allowed(which: str) -> None:
    examples = [Example(update=n, trial=trial(f"t{n}")) for n in range(3)]
    with pytest.raises(ConfigError, match=f"'{which}': 1 to 3 or a ticket id of --list"):
        select(examples, which)


def test_show_reads_the_run_directory_and_the_text_file_holds_every_example(tmp_path: Path) -> None:
    run = RunDir.create("lamer-x", tmp_path)
    with pytest.raises(AgentMemError, match="no example trial yet"):
        show(run)
    write_text(run)
    assert not run.examples_text.exists()
    with ExampleStore(run.examples) as store:
        store.offer(trial("a"), 1)
        store.offer(trial("b"), 2)
    write_text(run)
    assert show(run, "a").splitlines()[1].startswith("trial a:")
    assert len(show(run, listing=True).splitlines()) == 3
    text = run.examples_text.read_text(encoding="utf-8")
    assert show(run, "a") in text
    assert show(run, "b") in text


def test_a_file_that_holds_no_examples_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "e").write_bytes(b"nonsense")
    with pytest.raises(AgentMemError, match="holds no example trials"):
        load_examples(tmp_path / "e")


def test_a_run_is_shown_by_the_name_a_command_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path))
    with ExampleStore(RunDir.create("lamer-x").examples) as store:
        store.offer(trial("a"), 1)
    assert show_run("last", "1").splitlines()[1].startswith("trial a:")
    with pytest.raises(ConfigError, match="'other' not found"):
        show_run("other")


def test_a_page_of_html_has_all_of_a_trial_and_runs_nothing_of_it() -> None:
    hint = Turn(
        kind=TurnKind.ADVISE, policy="memory", prompt_ids=(3,), response="<b>keep left</b>", reward=None
    )
    played = msgspec.structs.replace(trial("g1-2", "lw", reflect=True), advice=(hint,))
    count = len(played.turns())
    example = Example(
        update=7,
        trial=played,
        prompts=[f"prompt {n} <script>alert(1)</script>" for n in range(count)],
        credit={"advantages": [0.5 - n for n in range(count)], "version": 8, "loss_share": 0.1},
    )
    page = render_html(example)
    for part in (
        "trial g1-2: minesweeper 17",
        "consumed by update 7 (to weight version 8)",
        "&lt;b&gt;keep left&lt;/b&gt;",
        "board0",
        "prompt 0 &lt;script&gt;",
        "avoid the corner",
        "mines: (0,0)",
        "reward 1",
        "advantage +0.500",
        "advantage -0.500",
    ):
        assert part in page, part
    assert "<script" not in page
    assert page.count("<details>") == count


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTMEM_RUNS", str(tmp_path))
    run = RunDir.create("lamer-minesweeper", tmp_path)
    with ExampleStore(run.examples) as store:
        store.offer(trial("g1-2"), 1, None)
    write_page("last", None, tmp_path / "page.html")
    assert "trial g1-2" in (tmp_path / "page.html").read_text()
    with pytest.raises(ConfigError, match="can't write there"):
        write_page("last", None, tmp_path / "no" / "page.html")
