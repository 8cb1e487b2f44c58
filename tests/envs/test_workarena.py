"""WorkArena's tasks, on a stand-in for ServiceNow."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from envs import registry
from envs.base import EnvLost
from envs.interpreter import package_directory
from envs.options import EnvSetupError
from envs.workarena.instance import VARIABLES
from envs.workarena.tasks import CATEGORIES, TASKS
from tests.envs import contract
from tests.envs.browsing import Move, browsed
from tests.envs.elsewhere import Elsewhere, python_of
from tests.standins.servicenow import ServiceNow

QUICK = {"pre_observation_delay_s": 0.05}
"""The stand-in does all at once."""
TITLE, ACTIVE = "sort-user-list/1006", "sort-user-list/1039"  # by title, ascending; by active, descending
MENU, KNOWLEDGE, FILTER = "all-menu/1033", "knowledge-base-search/1002", "filter-user-list/1000"


@pytest.fixture(scope="module")
def office() -> Iterator[ServiceNow]:
    configs = package_directory("browsergym.workarena", python_of("workarena")) / "data_files"
    with ServiceNow(configs) as instance:
        yield instance


@pytest.fixture(scope="module")
def env(office: ServiceNow) -> Iterator[Elsewhere]:
    there = Elsewhere("workarena", QUICK, **office.environment)
    yield there
    there.close()


def guests(office: ServiceNow) -> list[str]:
    """The users that were made for episodes."""
    return [row["user_name"] for row in office.tables["sys_user"].values() if "@workarena" in row["email"]]


def test_the_splits_are_the_benchmarks_seeds_and_others() -> None:
    train, held_out = (registry.instances("workarena", {}, split) for split in ("train", "eval"))
    assert len(TASKS) == len(set(TASKS)) == 33
    assert len(train) == len(set(train)) == 33 * 100
    assert not set(train) & set(held_out)
    assert len(held_out) == len(set(held_out)) > 320  # a few of the 330 come twice
    assert train[0] == "multi-chart-value-retrieval/1000"
    menus = registry.instances("workarena", {"categories": "menu", "train_seeds": 2}, "train")
    assert menus == ["all-menu/1000", "impersonation/1000", "all-menu/1001", "impersonation/1001"]
    both = {"categories": "menu, knowledge", "tasks": "all-menu,sort-user-list"}
    assert {str(one).split("/")[0] for one in registry.instances("workarena", both, "eval")} == {"all-menu"}


_THEIRS = """
import json
from browsergym import workarena
short = lambda task: task.get_task_id().rpartition(".")[2]
drawn = [(short(task), seed) for task, seed in workarena.get_all_tasks_agents("l1")]
kinds = {name.rpartition(".")[2]: kind for name, kind in workarena.TASK_CATEGORY_MAP.items()}
print(json.dumps([drawn, kinds]))
"""


@pytest.mark.slow
def test_tasks_categories_and_seeds_are_the_benchmarks() -> None:
    command = [python_of("workarena"), "-c", _THEIRS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    drawn, kinds = json.loads(done.stdout.splitlines()[-1])
    assert {f"{task}/{seed}" for task, seed in drawn} == set(registry.instances("workarena", {}, "eval"))
    ours = {task: kind for kind, tasks in CATEGORIES.items() for task in tasks}
    assert ours == {task: kind.replace(" ", "-") for task, kind in kinds.items()}


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"categories": "menu,lists"}, ["categories='lists'", "list-sort"]),
        ({"tasks": "sort-everything"}, ["tasks='sort-everything'", "sort-user-list"]),
        ({"level": "l2"}, ["level='l2'", "l1"]),
        ({"train_seeds": 0}, ["train_seeds=0"]),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(options: dict[str, object], parts: list[str]) -> None:
    with pytest.raises(EnvSetupError) as error:
        registry.validate_options("workarena", options)
    assert all(part in str(error.value) for part in parts)


def test_the_check_names_what_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "something")
    assert registry.check("workarena") == []
    monkeypatch.delenv("SNOW_INSTANCE_UNAME")
    monkeypatch.setenv("SNOW_INSTANCE_PWD", "")
    (line,) = registry.check("workarena")
    assert line.endswith("SNOW_INSTANCE_UNAME, SNOW_INSTANCE_PWD")


RIGHT_AND_WRONG: dict[str, tuple[str, list[Move], list[Move]]] = {
    "menu": (
        MENU,
        [("click", "Activity Subscriptions > Administration > Properties")],
        [("click", "Search Experience > Search Applications")],
    ),
    "knowledge": (
        KNOWLEDGE,
        [("fill", "Search", "social media"), ("click", "Search"), ("send_msg_to_user", "It's LinkedIn.")],
        [("send_msg_to_user", "The town crier")],
    ),
    "list-sort": (TITLE, [("click", "Title")], [("click", "Email")]),
    "list-filter": (
        FILTER,
        [("fill", "Conditions", "active=true^vip=false"), ("click", "Run")],
        [("fill", "Conditions", "active=true^vip=true"), ("click", "Run")],
    ),
}


@pytest.mark.parametrize(
    "category",
    [
        "menu",
        "list-sort",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("knowledge", "list-filter")),
    ],
)
def test_a_right_run_scores_1_and_a_wrong_one_0(env: Elsewhere, office: ServiceNow, category: str) -> None:
    instance, right, wrong = RIGHT_AND_WRONG[category]
    assert instance.split("/")[0] in CATEGORIES[category]
    for moves, score in ((wrong, 0.0), (right, 1.0)):
        _, (_, reward, over, info) = browsed(env, instance, moves)
        assert (reward, over, info["success"], info["score"]) == (score, score > 0, score > 0, score), moves
        assert len(guests(office)) == 1  # the running episode's; the earlier ones are gone


@pytest.mark.slow
def test_a_list_is_sorted_downwards_by_a_second_click(env: Elsewhere) -> None:
    _, (_, reward, over, _) = browsed(env, ACTIVE, [("click", "Active"), ("click", "Active")])
    assert (reward, over) == (1.0, True)


@pytest.mark.slow
def test_a_restart_is_the_same_page_for_another_user(env: Elsewhere, office: ServiceNow) -> None:
    actions, _ = browsed(env, TITLE, [("click", "Email"), ("click", "Title")])
    before = office.calls.count("POST sys_user")
    contract.check_restart(env, TITLE, actions)
    assert office.calls.count("POST sys_user") == before + 3
    env.close_there()
    assert guests(office) == []
    assert office.calls.count("POST sys_user") == office.calls.count("DELETE sys_user")


@pytest.mark.slow
def test_hostile_actions_change_nothing(env: Elsewhere) -> None:
    actions, _ = browsed(env, TITLE, [("click", "Title")])
    contract.check_hostile(env, TITLE, actions)


def test_what_lacks_is_said_in_one_line(office: ServiceNow) -> None:
    password = {"SNOW_INSTANCE_PWD": office.environment["SNOW_INSTANCE_PWD"]}
    env = Elsewhere("workarena", QUICK, **dict.fromkeys(VARIABLES, "") | password)
    try:
        with pytest.raises(EnvSetupError, match="no SNOW_INSTANCE_URL, SNOW_INSTANCE_UNAME: set"):
            env.reset(options={"instance": MENU})
        with pytest.raises(EnvSetupError, match="no instance 'sort-everything/1'"):
            env.reset(options={"instance": "sort-everything/1"})
    finally:
        env.close()


@pytest.mark.slow
def test_a_dead_instance_is_a_loss_and_a_wrong_password_is_not(office: ServiceNow) -> None:
    wrong = {**office.environment, "SNOW_INSTANCE_PWD": "wrong"}
    dead = {**office.environment, "SNOW_INSTANCE_URL": "http://127.0.0.1:9"}
    refused, gone = "refused: check SNOW_INSTANCE_UNAME", "http://127.0.0.1:9 failed: .*not reachable"
    for surroundings, kind, said in ((wrong, EnvSetupError, refused), (dead, EnvLost, gone)):
        env = Elsewhere("workarena", QUICK, **surroundings)
        try:
            for instance in (MENU, KNOWLEDGE):
                with pytest.raises(kind, match=said) as error:
                    env.reset(options={"instance": instance})
                assert "\n" not in str(error.value)
        finally:
            env.close()
