"""ALFWorld on the real games: the official splits, play as in TextWorld itself, and the contract."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs import registry
from envs.alfworld.env import AlfWorld
from envs.alfworld.expert import expert_actions
from envs.alfworld.games import game_file, ids, task_type
from envs.alfworld.options import Options
from envs.base import EpisodeRecord, Message, Step, View
from envs.play import play
from tests.envs.contract import (
    HOSTILE,
    check_close,
    check_determinism,
    check_hostile,
    check_many_episodes,
    check_restart,
    played,
)

UNSEEN, TRAIN = "valid_unseen/", "train/"
SMALL = UNSEEN + "look_at_obj_in_light-Mug-None-DeskLamp-308/trial_T20190908_201444_037645"
WON_QUICKLY = {
    "pick": UNSEEN + "pick_and_place_simple-SaltShaker-None-Cabinet-10/trial_T20190906_191445_723170",
    "look": TRAIN + "look_at_obj_in_light-AlarmClock-None-DeskLamp-314/trial_T20190908_042426_942777",
    "clean": UNSEEN + "pick_clean_then_place_in_recep-SoapBar-None-Cabinet-424/trial_T20190908_214946_567644",
    "heat": UNSEEN + "pick_heat_then_place_in_recep-Tomato-None-GarbageCan-10/trial_T20190908_225046_020282",
    "cool": UNSEEN + "pick_cool_then_place_in_recep-Potato-None-Microwave-10/trial_T20190907_033228_194678",
    "pick2": UNSEEN + "pick_two_obj_and_place-Pillow-None-Sofa-219/trial_T20190907_163408_914117",
}
WON = [
    *WON_QUICKLY.values(),
    TRAIN + "pick_and_place_simple-SprayBottle-None-Toilet-403/trial_T20190908_042208_991561",
    TRAIN + "pick_and_place_simple-Statue-None-Dresser-319/trial_T20190909_122415_877633",
    TRAIN + "pick_and_place_simple-HandTowel-None-GarbageCan-423/trial_T20190907_030014_861239",
    UNSEEN + "pick_and_place_simple-Pencil-None-Shelf-308/trial_T20190908_122154_042763",
    TRAIN + "look_at_obj_in_light-Pencil-None-DeskLamp-307/trial_T20190909_014346_726857",
    TRAIN + "look_at_obj_in_light-AlarmClock-None-DeskLamp-304/trial_T20190907_170615_242578",
    UNSEEN + "look_at_obj_in_light-CD-None-DeskLamp-308/trial_T20190908_141958_463362",
    TRAIN + "pick_clean_then_place_in_recep-SoapBar-None-CounterTop-418/trial_T20190908_220910_082834",
    TRAIN + "pick_clean_then_place_in_recep-Cloth-None-Toilet-402/trial_T20190906_201408_789070",
    UNSEEN + "pick_clean_then_place_in_recep-Cloth-None-CounterTop-424/trial_T20190908_114340_674467",
    TRAIN + "pick_heat_then_place_in_recep-Apple-None-SideTable-21/trial_T20190908_235409_008266",
    UNSEEN + "pick_heat_then_place_in_recep-Egg-None-GarbageCan-10/trial_T20190908_113432_673307",
    UNSEEN + "pick_heat_then_place_in_recep-Apple-None-Fridge-10/trial_T20190906_182353_418140",
    TRAIN + "pick_cool_then_place_in_recep-Apple-None-DiningTable-15/trial_T20190906_192145_257915",
    TRAIN + "pick_cool_then_place_in_recep-Lettuce-None-GarbageCan-20/trial_T20190907_204440_642169",
    UNSEEN + "pick_cool_then_place_in_recep-Pan-None-CounterTop-10/trial_T20190908_114656_768805",
    UNSEEN + "pick_two_obj_and_place-SoapBar-None-Cabinet-424/trial_T20190909_081746_857594",
    UNSEEN + "pick_two_obj_and_place-Pillow-None-Sofa-219/trial_T20190907_163327_486300",
    UNSEEN + "pick_two_obj_and_place-KeyChain-None-Safe-219/trial_T20190909_011803_423115",
]
"""Games that the expert wins within 50 turns, at least four of each type."""


def made(**options: Any) -> AlfWorld:
    env = registry.make("alfworld", options)
    assert isinstance(env, AlfWorld)
    return env


@pytest.fixture
def env() -> Iterator[AlfWorld]:
    made_env = made()
    yield made_env
    made_env.close()


# --- splits ---


def test_the_official_splits_are_complete() -> None:
    counts = {
        split: Counter(map(task_type, ids("full", split)))
        for split in ("train", "valid_seen", "valid_unseen")
    }
    assert {split: count.total() for split, count in counts.items()} == {
        "train": 3553,
        "valid_seen": 140,
        "valid_unseen": 134,
    }
    assert counts["train"] == {"pick": 790, "look": 308, "clean": 650, "heat": 459, "cool": 533, "pick2": 813}
    assert counts["valid_unseen"] == {
        "pick": 24,
        "look": 18,
        "clean": 31,
        "heat": 23,
        "cool": 21,
        "pick2": 17,
    }


def test_splits_and_types_are_chosen_by_options() -> None:
    def listed(split: str, **options: Any) -> Counter[str]:
        return Counter(task_type(str(game)) for game in registry.instances("alfworld", options, split))

    assert listed("train").total() == 3553
    assert listed("eval").total() == 134
    assert listed("eval", eval_split="valid_seen").total() == 140
    assert listed("train", task_types=["heat", "look"]) == {"heat": 459, "look": 308}
    assert listed("eval", task_types=["heat"]).total() == 134
    assert listed("eval", eval_task_types=["heat"]) == {"heat": 23}
    held_out = {"protocol": "out_of_distribution"}
    assert listed("train", **held_out) == {"pick": 790, "look": 308, "clean": 650, "heat": 459}
    assert listed("eval", **held_out) == {"cool": 21, "pick2": 17}


def test_the_order_of_games_is_that_of_their_paths() -> None:
    games = list(registry.instances("alfworld", {}, "train"))
    assert games == sorted(games)
    assert (
        games[0] == TRAIN + "look_at_obj_in_light-AlarmClock-None-DeskLamp-301/trial_T20190907_174127_043461"
    )


@pytest.mark.parametrize(
    "instance", [UNSEEN + "none/trial", "../../etc/passwd", "train", "", 3, SMALL + "/game.tw-pddl"]
)
def test_a_game_that_does_not_exist_is_named(env: AlfWorld, instance: Any) -> None:
    with pytest.raises(registry.EnvSetupError, match="alfworld has no instance"):
        env.reset(options={"instance": instance})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"task_types": ["pick", "fly"]}, r"task_types\[1\]='fly'.*pick, look"),
        ({"task_types": "pick"}, "task_types='pick'.*a list"),
        ({"eval_split": "test"}, "eval_split='test'"),
        ({"history_turns": -1}, "history_turns=-1"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(registry.EnvSetupError, match=named):
        registry.instances("alfworld", options, "train")


def test_missing_games_are_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert registry.check("alfworld") == []
    monkeypatch.setenv("AGENTMEM_DATA", str(tmp_path))
    (line,) = registry.check("alfworld")
    assert "agentmem data fetch alfworld" in line
    with pytest.raises(registry.EnvSetupError, match="agentmem data fetch alfworld"):
        registry.instances("alfworld", {}, "train")


def test_listing_and_styling_import_no_textworld() -> None:
    code = (
        "import sys; from envs import registry; registry.instances('alfworld', {}, 'train'); "
        "registry.style('alfworld', {}); print('textworld' in sys.modules, 'alfworld' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False", "False"]


# --- play ---


def _compare_with_textworld(game: str, *, turns: int, seed: int) -> None:
    """Random play, here and in TextWorld's own environment: the same texts, commands, facts and outcome."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs import PddlEnv

    from envs.alfworld.game import Game

    theirs = AlfredDemangler(
        PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True, facts=True)), shuffle=False
    )
    theirs.load(str(game_file("full", game)))
    ours = Game()
    ours.load(game_file("full", game))
    for attempt in range(2):  # the second starts from a game that has been played
        rng = random.Random(seed + attempt)
        state = theirs.reset()
        assert ours.start() == state["feedback"]
        for _ in range(turns):
            assert list(ours.commands) == state["admissible_commands"]
            assert ours.won == state["won"]
            assert sorted(map(str, ours.facts())) == sorted(map(str, state["facts"]))
            command = "dance" if rng.random() < 0.1 else rng.choice(ours.commands)
            told = ours.play(command)
            state, _, _ = theirs.step(command)
            assert state["feedback"] == ("Nothing happens." if told is None else told)
    ours.close()


def test_a_game_plays_as_in_textworlds_own_environment() -> None:
    _compare_with_textworld(WON_QUICKLY["look"], turns=12, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_games_play_as_in_textworlds_own_environment(seed: int) -> None:
    game = random.Random(seed).choice(list(registry.instances("alfworld", {}, "train")))
    _compare_with_textworld(str(game), turns=40, seed=seed)


def _expert_wins(env: AlfWorld, game: str) -> None:
    env.reset(options={"instance": game})
    actions = expert_actions(env)
    assert env.game.won
    env.restart()
    trace = played(env, actions)
    assert [step[1] for step in trace] == [0.0] * (len(actions) - 1) + [10.0]
    assert trace[-1][2:] == (True, False, True, False)


@pytest.mark.parametrize("kind", WON_QUICKLY)
def test_the_expert_reaches_the_goal_and_only_that_is_rewarded(env: AlfWorld, kind: str) -> None:
    assert task_type(WON_QUICKLY[kind]) == kind
    _expert_wins(env, WON_QUICKLY[kind])


@pytest.mark.slow
@pytest.mark.parametrize("game", WON)
def test_the_expert_reaches_the_goal_in_four_games_of_each_type(env: AlfWorld, game: str) -> None:
    counts = Counter(map(task_type, WON))
    assert len(counts) == 6
    assert min(counts.values()) >= 4
    _expert_wins(env, game)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_the_solutions_of_the_sample_games_reach_the_goal(split: str) -> None:
    env = made(games="sample24")
    games = ids("sample24", split)
    assert len(games) == 12
    for game in games:
        solution = json.loads(game_file("sample24", game).read_text())["walkthrough"]
        env.reset(options={"instance": game})
        trace = played(env, solution)
        assert len(trace) == len(solution)
        assert trace[-1][2:] == (True, False, True, False)
    env.close()


@pytest.mark.parametrize("protocol", ["restart", "hostile"])
def test_the_start_comes_back_whatever_was_played(env: AlfWorld, protocol: str) -> None:
    env.reset(options={"instance": WON_QUICKLY["look"]})
    actions = expert_actions(env)
    if protocol == "restart":
        trace = check_restart(env, WON_QUICKLY["look"], actions)
        assert trace[-1][4] is True
    else:
        check_hostile(env, WON_QUICKLY["look"], actions)


def test_two_processes_see_the_same(env: AlfWorld) -> None:
    env.reset(options={"instance": SMALL})
    rng = random.Random(1)
    actions = []
    for _ in range(12):
        actions.append(rng.choice(env.admissible_actions() or ("look",)))
        env.step(actions[-1])
    check_determinism("alfworld", {}, SMALL, actions)


def test_environments_side_by_side_do_not_mix(env: AlfWorld) -> None:
    other = made()
    game = WON_QUICKLY["look"]
    first, _ = env.reset(options={"instance": game})
    assert other.reset(options={"instance": game})[0] == first
    other.reset(options={"instance": SMALL})
    alone = played(other, ["go to desk 1", "look"])
    env.step("go to desk 1")
    other.restart()
    assert played(other, ["go to desk 1", "look"]) == alone
    assert env.step("look")[0].startswith("You are facing the desk 1")
    other.close()


def test_a_start_tells_the_task_and_the_observation_the_room(env: AlfWorld) -> None:
    observation, info = env.reset(options={"instance": WON_QUICKLY["pick"]})
    assert info == {
        "success": False,
        "invalid": False,
        "score": 0.0,
        "instruction": "Your task is to: put some saltshaker on cabinet.",
        "task_type": "pick",
        "placing": "move",
    }
    assert observation.startswith("You are in the middle of a room. Looking quickly around you, you see a ")
    assert "Your task" not in observation


def test_an_impossible_command_changes_nothing(env: AlfWorld) -> None:
    env.reset(options={"instance": SMALL})
    before = env.game.commands
    for action in [*HOSTILE, "take mug 99 from shelf 1", "LOOK", "look; look"]:
        observation, reward, terminated, truncated, info = env.step(action)
        assert (observation, reward, terminated, truncated) == ("Nothing happens.", 0.0, False, False)
        assert info == {"success": False, "invalid": True, "score": 0.0}
    assert env.game.commands == before


def test_nothing_happens_after_the_end(env: AlfWorld) -> None:
    env.reset(options={"instance": WON_QUICKLY["look"]})
    expert_actions(env)
    last = env.step("look")
    assert last[1:4] == (0.0, True, False)
    assert last[4] == {"success": True, "invalid": True, "score": 1.0}
    assert env.admissible_actions() == ()
    assert env.step("inventory")[0] == last[0]


def test_all_admissible_actions_are_possible(env: AlfWorld) -> None:
    env.reset(options={"instance": SMALL})
    offered = env.admissible_actions()
    assert offered
    assert "look" in offered
    assert "help" not in offered
    for action in offered:
        env.restart()
        assert env.step(action)[4]["invalid"] is False
    silent = made(admissible=False)
    silent.reset(options={"instance": SMALL})
    assert silent.admissible_actions() is None
    silent.close()


def test_reset_without_an_instance_or_restart_before_reset_is_refused(env: AlfWorld) -> None:
    for wrong in (env.restart, env.reset, lambda: env.step("look")):
        with pytest.raises(registry.EnvSetupError, match="reset"):
            wrong()


def test_a_person_is_told_the_task_and_can_win(env: AlfWorld) -> None:
    game = WON_QUICKLY["look"]
    env.reset(options={"instance": game})
    answers = iter(["dance", "again", *expert_actions(env)])
    said: list[str] = []
    assert play("alfworld", {}, game, input_fn=lambda _: next(answers), output_fn=said.append)
    assert "Your task is to: look at alarmclock under the desklamp." in said[0]
    assert "reward 0 (not a possible action)" in said
    assert said[-1].startswith("Won after ")


# --- the older command grammar ---


@pytest.fixture
def old_games(tmp_path: Path) -> str:
    """A folder of one's own with a game whose grammar says `put X in/on Y`, and what is no game beside it."""
    source = game_file("full", WON_QUICKLY["pick"])
    data = json.loads(source.read_text())
    older = data["grammar"].replace('"move {o} to {r}"', '"put {o} in/on {r}"')
    older = older.replace(
        "You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."
    )
    assert older != data["grammar"]
    for game, solvable in (
        (WON_QUICKLY["pick"], True),
        (WON_QUICKLY["pick"].replace("Salt", "Pepper"), False),
    ):
        folder = tmp_path / game
        folder.mkdir(parents=True)
        (folder / "game.tw-pddl").write_text(json.dumps({**data, "grammar": older, "solvable": solvable}))
        (folder / "traj_data.json").write_text((source.parent / "traj_data.json").read_text())
    return str(tmp_path)


def test_the_older_grammar_is_detected_in_the_game_and_said_in_the_prompt(old_games: str) -> None:
    current, old = made(), made(games=old_games)
    assert registry.instances("alfworld", {"games": old_games}, "eval") == [WON_QUICKLY["pick"]]
    current.reset(options={"instance": WON_QUICKLY["pick"]})
    actions = expert_actions(current)
    _, info = old.reset(options={"instance": WON_QUICKLY["pick"]})
    assert info["placing"] == "put"
    assert "put OBJECT in/on PLACE" in info["instruction"]
    rules = old.style.act_prompt(View("", instruction=info["instruction"]))[0].content  # type: ignore[union-attr]
    assert "\nput OBJECT in/on PLACE\n" in rules
    assert "move OBJECT" not in rules
    with pytest.raises(ValueError, match="expert"):
        expert_actions(old)
    old.restart()
    moved = [action for action in actions if action.startswith("move ")]
    assert moved
    assert played(
        old, [a.replace("move ", "put ").replace(" to ", " in/on ") if a in moved else a for a in actions]
    )[-1][4]
    current.close()
    old.close()


def test_a_folder_without_games_is_named(tmp_path: Path) -> None:
    with pytest.raises(registry.EnvSetupError, match="none of the folders train"):
        registry.instances("alfworld", {"games": str(tmp_path)}, "train")
    with pytest.raises(registry.EnvSetupError, match="games='/no/such'.*full"):
        registry.instances("alfworld", {"games": "/no/such"}, "train")


# --- prompts ---


def text_of(prompt: Any) -> str:
    return "\n".join(message.content for message in prompt)


def test_prompts_extend_each_other_when_no_commands_are_listed(env: AlfWorld) -> None:
    observation, info = env.reset(options={"instance": WON_QUICKLY["look"]})
    actions = expert_actions(env)
    env.restart()
    steps: list[Step] = []
    prompts = []
    for action in actions:
        prompts.append(env.style.act_prompt(View(observation, tuple(steps), instruction=info["instruction"])))
        response = f"Hm. <action>{action}</action>" if len(steps) != 1 else "I don't know"
        parsed = env.style.parse_action(response)
        after, reward, over, _, told = env.step(parsed.text)
        steps.append(Step(observation, response, parsed.actions, reward, told["invalid"]))
        observation = after
        if over:
            break
    record = EpisodeRecord(0, tuple(steps), observation, False, "step_limit")
    prompts.append(
        env.style.reflect_prompt(View(observation, tuple(steps), instruction=info["instruction"]), record)
    )
    for before, step, after in zip(prompts, steps, prompts[1:], strict=False):
        assert after[: len(before)] == before
        assert after[len(before)] == Message("assistant", step.response)
        assert len(after) == len(before) + 2
    assert len(prompts) >= 4
    assert text_of(prompts[-1]).count(info["instruction"]) == 1
    account = env.summarise(record)
    for step in steps:
        assert all(action in account for action in step.actions)
    assert "2. no command (nothing happened)" in account
    assert observation in account


def test_possible_commands_and_long_texts_are_shown_up_to_their_limits() -> None:
    style = registry.style("alfworld", {"observation_limit": 100, "admissible_limit": 100})
    prompt = text_of(style.act_prompt(View("x" * 250, admissible=("go to desk 1",) * 20)))
    assert "x" * 100 + " [… 150 more characters left out]" in prompt
    assert "x" * 101 not in prompt
    assert prompt.count("go to desk 1,") == 7
    assert "[… 13 more left out]" in prompt
    assert "left out" not in text_of(style.act_prompt(View("x" * 100, admissible=("look",))))


@pytest.mark.parametrize(
    ("response", "actions"),
    [
        ("<action>go to desk 1</action>", ("go to desk 1",)),
        ("I look. <action> Take  Mug 1\nfrom desk 2. </action>", ("take mug 1 from desk 2",)),
        ("<think><action>look</action></think><action>inventory</action>", ("inventory",)),
        ("go to desk 1", ()),
        ("<action></action>", ()),
        ("<action>" + "x" * 300 + "</action>", ()),
        ("<action>look", ()),
    ],
)
def test_the_command_is_the_last_action_tag(response: str, actions: tuple[str, ...]) -> None:
    parsed = registry.style("alfworld", {}).parse_action(response)
    assert parsed.actions == actions
    assert parsed.invalid is (not actions)


def test_the_style_needs_no_environment() -> None:
    view = View("You see a desk 1.", instruction="Your task is to: look.", admissible=("look",))
    assert registry.style("alfworld", {}).act_prompt(view) == made().style.act_prompt(view)


# --- processes and memory ---


def _mapped_libraries() -> int:
    return sum(
        "downward" in line and " r-xp " in line for line in Path("/proc/self/maps").read_text().splitlines()
    )


def test_close_leaves_no_process() -> None:
    check_close(made, SMALL, ["look", "inventory"])


def test_closed_environments_leave_their_library_to_the_next() -> None:
    one, other = made(), made()
    loaded = _mapped_libraries()
    assert loaded >= 2
    one.close()
    other.close()
    for _ in range(5):
        env = made()
        first, _ = env.reset(options={"instance": SMALL})
        assert first.startswith("You are in the middle of a room.")
        assert env.step("go to desk 1")[0].startswith("You arrive at desk 1.")
        env.close()
        env.close()
    assert _mapped_libraries() == loaded
    with pytest.raises(RuntimeError, match="closed"):
        env.reset(options={"instance": SMALL})


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_hundred_episodes_do_not_grow(env: AlfWorld) -> None:
    games = list(registry.instances("alfworld", {"task_types": ["look"]}, "train"))  # small rooms start soon
    rng = random.Random(0)

    def play(env: Any, index: int) -> None:
        env.reset(options={"instance": games[rng.randrange(len(games))]})
        for _ in range(3):
            env.step(rng.choice(env.admissible_actions()))

    check_many_episodes(env, play)


def test_options_are_the_customary_setting_by_default() -> None:
    assert Options() == Options(max_turns=50, won_reward=10.0, admissible=True, eval_split="valid_unseen")
