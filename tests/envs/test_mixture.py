"""Several environments as one: whose instance it is decides how it is played, asked, read and answered."""

from __future__ import annotations

import pickle
from itertools import islice
from typing import Any

import pytest

from agentmem.trajectory import Task, domain_of
from envs import domains, registry
from envs.base import EpisodeRecord, Step, TextEnv, View
from envs.domains import Named, Part, named, parted
from envs.options import EnvSetupError
from envs.prompt_kind import acts_in_messages, advises_in_messages
from envs.prompting import REACT, prompted
from envs.scripted import ScriptedAgent
from envs.warmstart import Play
from tests.envs.contract import check_hostile, check_restart

WORDS: dict[str, Any] = {
    "domains": {
        "small": {"env": "doors", "weight": 2, "options": {"rooms": 2, "doors": 3, "format": "compact"}},
        "large": {"env": "doors", "options": {"rooms": 4, "doors": 3, "format": "compact"}},
        "scout": {"options": {"digs": 3, "format": "compact"}},
    }
}
GAMES = {"domains": {"doors": {"options": {"rooms": 2}}, "minesweeper": {"max_turns": 2}}}
HOUSE = "@small/hall-kitchen"


def env_at(instance: str | int, options: dict[str, Any] = WORDS) -> tuple[TextEnv, str]:
    env = registry.make("mixture", options)
    return env, env.reset(options={"instance": instance})[0]


# --- names ---


@pytest.mark.parametrize("instance", ["hall-attic", "a/b#7", "", "@x/y", 0, 131071, -3, "17"])
def test_an_instances_name_tells_its_domain_and_gives_the_instance_back(instance: str | int) -> None:
    called = named("small-2", instance)
    assert parted(called) == ("small-2", instance)
    assert domains.domain_of(called) == domain_of(called) == "small-2"
    task = Task(environment="mixture", instance=called)
    assert (task.domain, task.world) == ("small-2", "mixture/small-2")


@pytest.mark.parametrize("instance", ["hall-attic", "(1,1)(2,3)@(3,2)", "train/pick/trial", "@", "@#3", 17])
def test_instances_of_no_mixture_have_no_domain(instance: str | int) -> None:
    assert parted(instance) == ("", instance)
    assert domains.domain_of(instance) == domain_of(instance) == ""
    assert Task(environment="doors", instance=instance).world == "doors"


def test_many_instances_are_named_when_they_are_asked_for() -> None:
    many = Named([Part("a", "x", range(10**9)), Part("none", "y", ()), Part("b", "z", ("p", "q"))])
    assert len(many) == 10**9 + 2
    assert [many[0], many[10**9 - 1], many[10**9], many[-1]] == ["@a#0", "@a#999999999", "@b/p", "@b/q"]
    assert many[-2:] == ["@b/p", "@b/q"]
    for beyond in (len(many), -len(many) - 1):
        with pytest.raises(IndexError):
            many[beyond]


# --- instances ---


def test_each_domain_has_the_instances_of_its_environment() -> None:
    for split in registry.SPLITS:
        every = list(registry.instances("mixture", WORDS, split))
        for name, domain in WORDS["domains"].items():
            own = registry.instances(domain.get("env", name), domain["options"], split)
            assert [i for i in every if domains.domain_of(i) == name] == [named(name, i) for i in own]


def test_a_domain_that_is_left_out_is_evaluated_and_not_trained_on() -> None:
    options = {**WORDS, "leave_out": ["large"]}
    shown = {
        split: {domains.domain_of(i) for i in registry.instances("mixture", options, split)}
        for split in registry.SPLITS
    }
    assert shown == {"train": {"small", "scout"}, "eval": {"small", "large", "scout"}}
    assert registry.weights("mixture", options) == {"small": 2.0, "scout": 1.0}
    assert registry.weights("doors", {}) == {}


# --- play ---


@pytest.mark.parametrize(("instance", "actions"), [(HOUSE, ["red"]), ("@scout#5", ["(1,1)", "(2,2)"])])
def test_a_mixture_keeps_the_contract(instance: str, actions: list[str]) -> None:
    env = registry.make("mixture", WORDS)
    check_restart(env, instance, actions)
    check_hostile(env, instance, actions)
    env.close()
    env.close()


def test_an_instance_is_played_as_in_its_own_environment() -> None:
    options = WORDS["domains"]["large"]["options"]
    alone = registry.make("doors", options)
    house = registry.instances("doors", options, "eval")[0]
    env, first = env_at(named("large", house))
    assert alone.reset(options={"instance": house})[0] == first
    for door in ("blue", "red", "green"):
        assert env.step(door) == alone.step(door)
    steps = (Step(first, "blue", ("blue",), 0.0),)
    record = EpisodeRecord(0, steps, "outside", False, "failure")
    assert env.summarise(record) == alone.summarise(record)


def test_one_environment_plays_instances_of_all_domains_one_after_the_other() -> None:
    env, first = env_at(HOUSE)
    assert first == "hall"
    seen, _ = env.reset(options={"instance": "@scout#5"})
    assert seen.startswith("tree@")
    assert env.reset(options={"instance": HOUSE})[0] == "hall"


def test_a_domains_own_limit_of_turns_cuts_an_episode_and_starts_anew_with_each() -> None:
    board = registry.instances("mixture", GAMES, "eval")[-1]
    env, _ = env_at(board, GAMES)
    for _ in range(2):
        cuts = [env.step("nonsense")[2:4] for _ in range(2)]
        assert cuts == [(False, False), (False, True)]
        env.restart()


@pytest.mark.parametrize("instance", ["hall-kitchen", "@tiny/hall-kitchen", "@small", 3, "@small/attic"])
def test_an_instance_that_does_not_exist_is_named(instance: str | int) -> None:
    with pytest.raises(EnvSetupError, match="has no instance"):
        env_at(instance)


# --- prompts and players ---


def test_prompts_and_answers_are_the_domains() -> None:
    style = registry.style("mixture", WORDS)
    assert pickle.loads(pickle.dumps(style)) == style
    assert style.of("small").act_prompt(View("hall")) == "Room hall door:"
    assert style.of("scout").advise_prompt("", "tree@(1,1)") == "now tree@(1,1) Note:"
    assert style.of("large").parse_action("green").actions == ("green",)
    assert style.of("scout").parse_action("green").invalid
    with pytest.raises(EnvSetupError, match="no domain 'cellar': its domains are small, large, scout"):
        style.of("cellar")
    with pytest.raises(TypeError, match="its domains'"):
        style.act_prompt(View("hall"))
    alone = registry.style("doors", {})
    assert alone.of("") is alone


def test_a_way_of_asking_holds_for_every_domain() -> None:
    style = prompted(registry.style("mixture", GAMES), REACT)
    for domain in GAMES["domains"]:
        prompt = style.of(domain).act_prompt(View(""))
        assert not isinstance(prompt, str)
        assert "Thought:" in prompt[0].content


def test_domains_that_no_single_model_can_read_are_told_apart() -> None:
    mixed = {
        "domains": {
            "doors": {"options": {"format": "compact"}},
            "house": {"env": "doors", "options": {"advice": "words"}},
        }
    }
    with pytest.raises(EnvSetupError, match="domain house asks for actions in chat messages"):
        acts_in_messages(registry.style("mixture", mixed))
    assert not advises_in_messages(registry.style("mixture", mixed))
    assert acts_in_messages(registry.style("mixture", GAMES))


def test_each_domains_own_scripted_agent_answers() -> None:
    usual, other = (registry.scripted_agent("mixture", WORDS, script) for script in ("", "reversed"))
    field = "tree@(2,2) rock@(4,4) well@(1,4)"
    assert (usual.respond(View("hall", domain="small")), other.respond(View("hall", domain="small"))) == (
        "red",
        "green",
    )
    assert usual.respond(View(field, domain="scout")) == "(1,2)"
    assert other.respond(View(field, domain="scout")) != "(1,2)"


def test_an_agent_that_a_domain_does_not_have_is_named() -> None:
    with pytest.raises(EnvSetupError, match="domain small: .* doors has no scripted agent 'x'"):
        registry.scripted_agent("mixture", WORDS, "x")
    with pytest.raises(EnvSetupError, match="domain minesweeper: .* has no scripted agent"):
        registry.scripted_agent("mixture", GAMES)


def test_a_tiny_models_words_are_those_of_all_domains_and_its_rows_come_from_each_in_turn() -> None:
    start = registry.warm_start("mixture", {**WORDS, "leave_out": ["scout"]})
    assert start is not None
    assert start.hints is not None
    assert start.demonstrations is not None
    known = set(start.vocabulary)
    assert len(known) == len(start.vocabulary)
    rows = list(islice(start.hints(3), 30))
    assert rows == list(islice(start.hints(3), 30))
    assert {prompt.partition(" ")[0] for prompt, _ in rows[::3]} == {"Room"}
    assert {prompt.partition(" ")[0] for prompt, _ in rows[2::3]} == {"now"}
    rows += islice(start.demonstrations(0, Play()), 60)
    assert {w for row in rows for text in row for w in text.split()} <= known | {"<eos>"}
    assert registry.warm_start("mixture", GAMES) is None


# --- scout's digger ---


@pytest.mark.parametrize("form", ["compact", "text"])
def test_the_digger_digs_beside_landmarks_and_first_where_a_hint_says(form: str) -> None:
    options = {"digs": 3, "format": form}
    digger: ScriptedAgent = registry.scripted_agent("scout", options)
    env, style = registry.make("scout", options), registry.style("scout", options)
    first, _ = env.reset(options={"instance": 70000})

    def cell(hint: str | None) -> str:
        return style.parse_action(digger.respond(View(first, hint=hint))).text

    assert cell("(4,1) please") == "(4,1)"
    assert cell("dig south-of-tree or east-of-moon") != ""
    assert cell("north") == cell(None) != "(4,1)"


# --- what it needs ---


def test_it_is_light_if_all_of_its_domains_are() -> None:
    assert registry.spec("mixture", WORDS).light
    assert registry.spec("mixture", WORDS).deterministic
    heavy = registry.spec("mixture", {"domains": {"doors": {}, "alfworld": {}}})
    assert not heavy.light
    assert "textworld" in heavy.requires
    browser = registry.spec("mixture", {"domains": {"doors": {}, "miniwob": {}}})
    assert browser.venv == "browser"


def test_actions_are_listed_by_every_domain_that_can() -> None:
    env, _ = env_at(HOUSE, dict(registry.listing_actions("mixture", WORDS)))
    assert env.admissible_actions() == ("red", "blue", "green")


def test_games_and_words_are_mixed_for_one_memory_policy() -> None:
    options = {
        "domains": {
            "doors": {"options": {"format": "compact"}},
            "alfworld": {"options": {"advice": "words", "games": "sample24"}},
        }
    }
    style, start = registry.style("mixture", options), registry.warm_start("mixture", options)
    assert not advises_in_messages(style)
    assert start is not None
    assert {"Room", "coffeemachine"} <= set(start.vocabulary)
    game = next(
        i for i in registry.instances("mixture", options, "train") if domains.domain_of(i) == "alfworld"
    )
    env, _ = env_at(game, options)
    try:
        _, info = env.restart()
        prompt = style.of("alfworld").advise_prompt(info["instruction"], "You see a bed 1.")
        assert str(prompt).startswith("Task ")
        answer = registry.scripted_agent("mixture", options).respond(
            View("a bed 1", instruction=info["instruction"], domain="alfworld")
        )
        assert answer == "<action>go to bed 1</action>"
    finally:
        env.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"domains": {}}, "option domains={}: must be one environment or more"),
        ({"domains": {"chess": {}}}, "domain chess: unknown environment 'chess'"),
        ({"domains": {"a": {"env": "chess"}}}, "domain a: unknown environment 'chess'"),
        ({"domains": {"doors": {"weight": 0}}}, "option domains.doors.weight=0.0: must be above 0"),
        ({"domains": {"doors": {"weight": float("inf")}}}, "domains.doors.weight=inf"),
        ({"domains": {"doors": {"wieght": 1}}}, "unknown option domains.doors.wieght=1"),
        (
            {"domains": {"doors": {"options": {"rooms": 9}}}},
            "domain doors: environment doors: option room",
        ),
        ({"domains": {"doors": {"max_turns": -1}}}, "domains.doors.max_turns=-1"),
        ({"domains": {"doors": None}}, "option domains.doors=None: must be a mapping"),
        ({"domains": {"My Doors": {"env": "doors"}}}, "'My Doors': must be named by small letters"),
        ({"domains": {"m": {"env": "mixture"}}}, "domains.m.env='mixture': must be no mixture itself"),
        ({"domains": {"mixture": {}}}, "domains.mixture.env='mixture': must be no mixture itself"),
        (
            {**WORDS, "leave_out": ["tiny"]},
            "leave_out='tiny': must be among the domains",
        ),
        ({**WORDS, "leave_out": list(WORDS["domains"])}, "must be fewer than all domains"),
        (
            {"domains": {"miniwob": {}, "alfworld": {}}},
            "miniwob and alfworld need packages of different",
        ),
    ],
)
def test_what_cannot_be_mixed_is_one_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(EnvSetupError) as refused:
        registry.spec("mixture", options)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
