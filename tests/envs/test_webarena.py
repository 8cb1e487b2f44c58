"""WebArena's tasks and evaluators, on stand-ins for its sites."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs import registry
from envs.base import EnvLost
from envs.options import EnvSetupError
from envs.webarena import lite, sites
from envs.webarena.tasks import catalogue
from tests.envs import contract
from tests.envs.browsing import Move, browsed
from tests.envs.elsewhere import Elsewhere
from tests.standins.judge import JudgeEndpoint
from tests.standins.webarena import WebArenaSites

KEY = "a-key-that-nobody-may-see"
QUICK = {"pre_observation_delay_s": 0.05}
"""The stand-ins do all at once."""


def answer(text: str) -> Move:
    return ("send_msg_to_user", text)


@pytest.fixture(scope="module")
def places() -> Iterator[WebArenaSites]:
    with WebArenaSites() as found:
        yield found


@pytest.fixture(scope="module")
def env(places: WebArenaSites) -> Iterator[Elsewhere]:
    there = Elsewhere("webarena", QUICK, **places.environment)
    yield there
    there.close()


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeEndpoint]:
    with JudgeEndpoint(KEY) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def judged(places: WebArenaSites, judge: JudgeEndpoint) -> Iterator[Elsewhere]:
    options = {**QUICK, "fuzzy": "judge", "judge_url": judge.base_url, "judge_model": "a-judge"}
    there = Elsewhere("webarena", options, OPENAI_API_KEY=KEY, **places.environment)
    yield there
    there.close()


@pytest.fixture(scope="module")
def verified(places: WebArenaSites) -> Iterator[Elsewhere]:
    there = Elsewhere("webarena", {**QUICK, "scoring": "verified"}, **places.environment)
    yield there
    there.close()


def count(options: dict[str, Any]) -> tuple[int, int]:
    return tuple(len(registry.instances("webarena", options, split)) for split in ("train", "eval"))  # type: ignore[return-value]


def test_the_splits_are_webarena_lite_and_the_rest() -> None:
    assert count({"fuzzy": "judge"}) == count({"scoring": "verified"}) == (647, 165)
    assert count({}) == (647 - 86, 165 - 32)
    everything = {"fuzzy": "judge"}
    train, held_out = (registry.instances("webarena", everything, split) for split in ("train", "eval"))
    assert tuple(held_out) == lite.IDS
    assert sorted([*train, *held_out]) == list(range(812))


def test_tasks_are_chosen_by_site_evaluator_and_id() -> None:
    for split in ("train", "eval"):
        found = registry.instances("webarena", {"sites": "gitlab, reddit"}, split)
        assert {"gitlab", "reddit"} == {site for number in found for site in catalogue()[number].sites}
        found = registry.instances("webarena", {"evaluators": "url_match"}, split)
        assert {("url_match",)} == {catalogue()[number].evaluators for number in found}
    assert count({"task_ids": "390,44,0"}) == (2, 1)
    assert registry.instances("webarena", {"task_ids": "390,0"}, "train") == [0, 390]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"sites": "gitlab,nowhere"}, ["sites='nowhere'", "shopping_admin"]),
        ({"task_ids": "812"}, ["task_ids='812'", "811"]),
        ({"evaluators": "taste"}, ["evaluators='taste'", "program_html"]),
        ({"task_ids": "0,16"}, ["task 16", "judge"]),
        ({"judge_timeout_s": 0}, ["judge_timeout_s=0"]),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(options: dict[str, object], parts: list[str]) -> None:
    with pytest.raises(EnvSetupError) as error:
        registry.instances("webarena", options, "train")
    assert all(part in str(error.value) for part in parts)


def test_the_check_names_the_addresses_that_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    for site in sites.SITES:
        monkeypatch.setenv(sites.variable(site), "http://127.0.0.1:9")
    monkeypatch.delenv("WA_REDDIT")
    monkeypatch.setenv("WA_MAP", " ")
    (line,) = registry.check("webarena")
    assert "WA_REDDIT, WA_MAP:" in line
    monkeypatch.setenv("WA_REDDIT", "http://127.0.0.1:9")
    monkeypatch.setenv("WA_MAP", "http://127.0.0.1:9")
    assert registry.check("webarena") == []


def test_the_prompt_says_how_to_answer_and_no_more_than_scoring_allows() -> None:
    own, theirs = (registry.style("webarena", {"scoring": scoring}) for scoring in ("webarena", "verified"))
    refusal = "<action>report_infeasible('no such thing')</action>"
    assert own.parse_action(refusal).actions == ("report_infeasible('no such thing')",)
    assert theirs.parse_action(refusal).invalid
    assert own.parse_action("<action>upload_file('1', '/etc/passwd')</action>").invalid


def test_the_stand_in_can_be_started_by_hand() -> None:
    command = [sys.executable, "-m", "tests.standins.webarena", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(7)]
            found = dict(line.removeprefix("export ").strip().split("=") for line in lines)
            assert set(found) == {sites.variable(site) for site in (*sites.SITES, "homepage")}
            with urllib.request.urlopen(found["WA_MAP"], timeout=30) as page:
                assert b"Walking: 16min" in page.read()
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        finally:
            process.kill()


RIGHT_AND_WRONG = {
    "an exact answer": (0, [answer("'quest lumaflex™ band'")], [answer("Quest Lumaflex")]),
    "an answer that includes something": (
        11,
        [("click", "Reviews"), ("fill", "Review", "disappointed"), ("click", "Search"), answer("It is 6.")],
        [answer("It is 16.")],
    ),
    "an address": (44, [("click", "To-Do List")], [("click", "Explore"), answer("there")]),
    "what a page holds": (
        390,
        [("click", "Semantic"), ("fill", "Comment", "lgtm"), ("click", "Comment")],
        [("click", "Semantic"), ("fill", "Comment", "no"), ("click", "Comment"), answer("done")],
    ),
    "an answer and an address": (182, [("click", "Homepage content"), answer("Yes")], [answer("Yes")]),
}


@pytest.mark.parametrize(
    "family",
    [
        *("an exact answer", "an address", "what a page holds"),
        pytest.param("an answer that includes something", marks=pytest.mark.slow),
        pytest.param("an answer and an address", marks=pytest.mark.slow),
    ],
)
def test_a_right_run_scores_1_and_a_wrong_one_0(env: Elsewhere, places: WebArenaSites, family: str) -> None:
    number, right, wrong = RIGHT_AND_WRONG[family]
    places.forget()
    for moves, score in ((wrong, 0.0), (right, 1.0)):
        _, (_, reward, over, info) = browsed(env, number, moves)
        assert (reward, over, info["success"], info["score"]) == (score, True, score > 0, score), moves


MORE = {
    "a biography": (
        399,
        [("click", "Edit biography"), ("fill", "Biography", "I am a robot"), ("click", "Save")],
        [
            ("click", "Edit biography"),
            ("fill", "Biography", "I am no robot"),
            ("click", "Save"),
            answer("done"),
        ],
    ),
    "a post at an address": (
        601,
        [("click", "Ask in nyc"), ("fill", "Title", "is car necessary in NYC"), ("click", "Create")],
        [("click", "Ask in nyc"), ("fill", "Title", "hello"), ("click", "Create"), answer("done")],
    ),
    "an order that the shop's programs' door tells of": (
        506,
        [("click", "Buy Plant Mince")],
        [("click", "Buy Bean Loaf"), answer("done")],
    ),
    "a search": (
        276,
        [("fill", "Search", "switch accessories"), ("press", "Search", "Enter")],
        [answer("there")],
    ),
    "another word": (15, [answer("2")], [answer("12")]),
    "no fault of the sites": (258, [("click", "Explore")], [("report_infeasible", "no")]),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", MORE)
def test_more_right_runs_score_1_and_wrong_ones_0(env: Elsewhere, places: WebArenaSites, family: str) -> None:
    number, right, wrong = MORE[family]
    places.forget()
    for moves, score in ((wrong, 0.0), (right, 1.0)):
        _, (_, reward, over, info) = browsed(env, number, moves)
        assert (reward, over, info["success"]) == (score, True, score > 0), moves


def test_a_judged_task_is_judged_when_it_is_answered(judged: Elsewhere, judge: JudgeEndpoint) -> None:
    for said, score in (("driving: 3min, walking: 16min", 0.0), ("Driving: 2min, walking: 16min", 1.0)):
        judge.asked.clear()
        judged.reset(options={"instance": 16})
        assert judged.step("scroll(0, 100)")[1:3] == (0.0, False)
        assert judge.asked == []
        _, reward, over, _, info = judged.step(f"send_msg_to_user({said!r})")
        assert (reward, over, info["success"]) == (score, True, score > 0)
        assert [model for model, _ in judge.asked] == ["a-judge", "a-judge"]  # one for each reference


@pytest.mark.slow
def test_the_reason_why_a_task_is_impossible_is_judged(judged: Elsewhere, judge: JudgeEndpoint) -> None:
    judge.asked.clear()
    _, last = browsed(judged, 101, [("report_infeasible", "whatever")])
    assert last[1:3] == (1.0, True)  # WebArena takes "N/A" as right without a reason
    assert judge.asked == []
    _, last = browsed(judged, 101, [answer("There is no In-N-Out near University of Pittsburgh, I fear")])
    assert last[1:3] == (1.0, True)
    _, last = browsed(judged, 101, [answer("It is closed")])
    assert last[1:3] == (0.0, True)
    assert len(judge.asked) == 2


@pytest.mark.slow
def test_without_a_key_there_is_no_judge(places: WebArenaSites) -> None:
    there = Elsewhere("webarena", {"fuzzy": "judge"}, OPENAI_API_KEY="", **places.environment)
    try:
        there.process.wait(60)
        assert there.process.returncode != 0
    finally:
        there.close()


def test_verified_scores_the_answer_and_what_the_browser_sent(
    verified: Elsewhere, places: WebArenaSites
) -> None:
    def said(kind: str, data: list[str] | None = None) -> Move:
        return answer(json.dumps({"task_type": kind, "status": "SUCCESS", "retrieved_data": data}))

    runs: list[tuple[int, list[Move], float]] = [
        (0, [said("retrieve", ["Sprite Yoga Strap"])], 0.0),
        (44, [("click", "To-Do List"), said("navigate")], 1.0),
        (44, [said("navigate")], 0.0),
    ]
    for number, moves, score in runs:
        _, (_, reward, over, info) = browsed(verified, number, moves)
        assert (reward, over, info["success"], info["score"]) == (score, True, score > 0, score), moves
    assert '"task_type"' in verified.reset(options={"instance": 0})[1]["instruction"]


@pytest.mark.slow
def test_verified_scores_what_was_found_and_what_was_changed(
    verified: Elsewhere, places: WebArenaSites
) -> None:
    done = answer(json.dumps({"task_type": "mutate", "status": "SUCCESS", "retrieved_data": None}))
    found = {"task_type": "RETRIEVE", "status": "SUCCESS", "retrieved_data": ["Quest Lumaflex™ Band"]}
    _, last = browsed(verified, 0, [answer(json.dumps(found))])
    assert last[1:3] == (1.0, True)
    _, last = browsed(verified, 0, [answer("Quest Lumaflex™ Band")])  # in another form
    assert last[1:3] == (0.0, True)
    for words, score in (("no", 0.0), ("lgtm", 1.0)):
        moves = [("click", "Semantic"), ("fill", "Comment", words), ("click", "Comment"), done]
        _, (_, reward, over, _) = browsed(verified, 390, moves)
        assert (reward, over) == (score, True)
    for words, score in (("I am no robot", 0.0), ("I am a robot", 1.0)):
        moves = [("click", "Edit biography"), ("fill", "Biography", words), ("click", "Save"), done]
        _, (_, reward, over, _) = browsed(verified, 399, moves)
        assert (reward, over) == (score, True)


@pytest.mark.slow
def test_a_restart_is_the_same_page_logged_in_anew(env: Elsewhere, places: WebArenaSites) -> None:
    before = len(places.logins)
    actions, _ = browsed(env, 182, [("click", "Explore"), ("go_back",), ("click", "Homepage")])
    contract.check_restart(env, 182, [*actions, "send_msg_to_user('Yes')"])
    assert places.logins[before:] == ["gitlab"] * 4


@pytest.mark.slow
def test_a_page_of_another_site_ends_the_episode(env: Elsewhere, judge: JudgeEndpoint) -> None:
    _, last = browsed(env, 44, [("goto", judge.url)])
    assert last[1:3] == (0.0, True)


@pytest.mark.slow
@pytest.mark.parametrize("scoring", ["webarena", "verified"])
def test_close_leaves_no_process_and_no_file(places: WebArenaSites, scoring: str) -> None:
    options = {**QUICK, "scoring": scoring}
    with tempfile.TemporaryDirectory() as home:  # short, as a browser's sockets need it
        contract.check_close(
            lambda: Elsewhere("webarena", options, TMPDIR=home, **places.environment),
            0,
            ["scroll(0, 10)", "send_msg_to_user('six')"],
        )
        assert [file.name for file in Path(home).rglob("*") if file.is_file()] == ["lock"]


@pytest.mark.slow
def test_many_episodes_take_no_more_memory(env: Elsewhere, places: WebArenaSites) -> None:
    def play(episodes: int) -> tuple[float, int]:
        for index in range(episodes):
            env.reset(options={"instance": (0, 44, 390)[index % 3]})
            assert env.step("send_msg_to_user('six')")[2]
        return contract.tree_rss_mib(), len(env.below())

    memory, processes = play(24)
    later_memory, later_processes = play(51)
    # The browser may hold a process or two in reserve, of some 50 MiB each.
    assert later_processes <= processes + 2
    assert later_memory <= memory + 130


@pytest.mark.slow
def test_hostile_actions_change_nothing(env: Elsewhere) -> None:
    contract.check_hostile(env, 0, ["scroll(0, 10)", "send_msg_to_user('Quest Lumaflex™ Band')"])


def test_what_lacks_is_said_in_one_line(places: WebArenaSites) -> None:
    known = {name: value for name, value in places.environment.items() if name == "WA_SHOPPING_ADMIN"}
    blank = dict.fromkeys(places.environment, "")
    dead = {"WA_GITLAB": "http://127.0.0.1:9"}
    env = Elsewhere("webarena", {}, **{**blank, **known, **dead})
    try:
        with pytest.raises(EnvSetupError, match="no address for WA_REDDIT:"):
            env.reset(options={"instance": 399})
        with pytest.raises(EnvLost, match="the site gitlab at http://127.0.0.1:9 failed") as lost:
            env.reset(options={"instance": 44})
        assert "\n" not in str(lost.value)
        for wrong in (812, "click-test/1", -1):
            with pytest.raises(EnvSetupError, match="no instance"):
                env.reset(options={"instance": wrong})
        with pytest.raises(EnvSetupError, match="task 16 needs a judge"):
            env.reset(options={"instance": 16})
        _, (_, reward, _, _) = browsed(env, 0, [answer("Quest Lumaflex™ Band")])  # needs none of the others
        assert reward == 1.0
    finally:
        env.close()


@pytest.mark.slow
def test_a_judge_that_refuses_is_a_loss_that_tells_no_key(
    places: WebArenaSites, judge: JudgeEndpoint
) -> None:
    options = {"fuzzy": "judge", "judge_url": judge.base_url}
    env = Elsewhere("webarena", options, OPENAI_API_KEY="another-key", **places.environment)
    try:
        env.reset(options={"instance": 16})
        with pytest.raises(EnvLost, match="judge at http.*status 401") as lost:
            env.step("send_msg_to_user('Driving: 2min, walking: 16min')")
        assert "another-key" not in str(lost.value)
        assert env.reset(options={"instance": 16})[1]["success"] is False
    finally:
        env.close()
