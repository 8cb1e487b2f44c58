"""LifelongAgentBench's database tasks: gold replay, judging, hostile SQL; on SQLite and on a real MariaDB."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envs import registry
from envs.base import EpisodeRecord, Message, Step, TextEnv, View
from envs.lab.db import Options, style
from envs.lab.db.answers import read_answer, same_rows, table_hash
from envs.lab.tasks import entries
from envs.options import EnvSetupError
from tests.envs import contract
from tests.envs.mariadb import databases, mariadb

QUESTION, CHANGE = "1", "0"


def entry(instance: str) -> dict[str, Any]:
    return entries("lab-db", "lab/db_entry_dict.json.xz")[instance]


def gold(instance: str) -> list[str]:
    """The actions that solve a task: its own statement, then the rows that are expected."""
    answer = entry(instance)["answer_info"]
    return [answer["sql"], f"answer: {[tuple(row) for row in answer['direct'] or []]!r}"]


def portable() -> list[Any]:
    every = [*registry.instances("lab-db", {}, "train"), *registry.instances("lab-db", {}, "eval")]
    return sorted(every, key=int)


def solved_by_gold(env: TextEnv, instance: str) -> bool:
    """Whether the shown result of the task's own statement, given as the answer, is judged right."""
    env.reset(options={"instance": instance})
    shown, _, over, _, info = env.step(entry(instance)["answer_info"]["sql"])
    assert (over, info["error"]) == (False, False)
    _, reward, over, _, info = env.step(f"answer: {shown}")
    assert over
    assert reward == info["score"] == float(info["success"])
    return bool(info["success"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with mariadb(tmp_path_factory.mktemp("mariadb")) as url:
        yield url


@pytest.fixture(params=["sqlite", "mariadb"])
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "sqlite":
        return {"statement_seconds": 0.5}
    return {"statement_seconds": 0.5, "url": request.getfixturevalue("server")}


@pytest.fixture
def env(options: dict[str, Any]) -> Iterator[TextEnv]:
    with contextlib.closing(registry.make("lab-db", options)) as made:
        yield made


# --- gold replay ---


def test_the_gold_statement_solves_every_portable_task_on_sqlite() -> None:
    with contextlib.closing(registry.make("lab-db", {"max_observation_chars": 100_000})) as env:
        ids = portable()
        assert len(ids) == 406
        assert [one for one in ids if not solved_by_gold(env, one)] == []


def test_the_gold_statement_solves_a_tenth_of_the_tasks_on_mariadb(server: str) -> None:
    options = {"url": server, "max_observation_chars": 100_000}
    with contextlib.closing(registry.make("lab-db", options)) as env:
        ids = portable()[::9]
        assert len(ids) >= 40
        assert [one for one in ids if not solved_by_gold(env, one)] == []
        kinds = {entry(one)["answer_info"]["sql"].split()[0].upper() for one in ids}
        assert kinds == {"SELECT", "INSERT", "UPDATE", "DELETE"}


@pytest.mark.slow
def test_the_gold_statement_solves_every_portable_task_on_mariadb(server: str) -> None:
    options = {"url": server, "max_observation_chars": 100_000}
    with contextlib.closing(registry.make("lab-db", options)) as env:
        wrong = [one for one in portable() if not solved_by_gold(env, one)]
        assert [one for one in wrong if not ordered_with_ties(env, one)] == []


def ordered_with_ties(env: TextEnv, instance: str) -> bool:
    """Whether the statement gives the answer's rows, in an order that it leaves open: a server may sort rows
    of equal keys either way, and MariaDB does not do it alike every time."""
    answer = entry(instance)["answer_info"]
    assert isinstance(answer["direct"], list)
    env.reset(options={"instance": instance})
    shown = ast.literal_eval(env.step(answer["sql"])[0])
    return "ORDER BY" in answer["sql"] and sorted(shown) == sorted(tuple(row) for row in answer["direct"])


# --- judging ---


def test_a_question_is_solved_by_its_rows_in_order_alone(env: TextEnv) -> None:
    right = [tuple(row) for row in entry(QUESTION)["answer_info"]["direct"]]
    nearly = [(row[0] * (1 + 1e-8), *row[1:]) for row in right]
    for answer, expected in [
        (right, True), (nearly, True), (right[::-1], False), (right[:-1], False), ([*right, right[0]], False),
        ([row[:-1] for row in right], False), ("nothing", False), ([], False),
    ]:  # fmt: skip
        env.reset(options={"instance": QUESTION})
        _, reward, over, cut, info = env.step(f"answer: {answer!r}")
        assert (over, cut, info["success"], reward) == (True, False, expected, float(expected))


def test_a_change_is_judged_by_the_tables_content(env: TextEnv) -> None:
    name = entry(CHANGE)["table_info"]["name"]
    for statement, expected in [
        (gold(CHANGE)[0], True),
        (f"SELECT * FROM {name}", False),
        (f"DELETE FROM {name}", False),
        (f"DROP TABLE {name}", False),
    ]:
        env.reset(options={"instance": CHANGE})
        assert env.step(statement)[4]["error"] is False
        _, reward, over, _, info = env.step("answer: done")
        assert (over, info["success"], reward) == (True, expected, float(expected))


def test_after_the_last_round_an_episode_is_judged_as_it_stands(env: TextEnv) -> None:
    name = entry(CHANGE)["table_info"]["name"]
    look = f"SELECT COUNT(*) FROM {name}"
    env.reset(options={"instance": CHANGE})
    trace = contract.played(env, [look, look, gold(CHANGE)[0]])
    assert [over for _, _, over, _, _, _ in trace] == [False, False, True]
    assert trace[-1][1] == 1.0
    env.reset(options={"instance": QUESTION})
    select = gold(QUESTION)[0]
    assert (
        contract.played(env, [select] * 5)[-1][4] is False
    )  # the rows were seen, but not given as the answer
    assert env.step(gold(QUESTION)[1])[4]["invalid"] is True  # it is over


def test_a_hash_is_that_of_the_rows_in_any_order_without_nulls() -> None:
    rows = [(1, "a", None), (2, "b", 3.5)]
    assert table_hash(rows) == table_hash(rows[::-1]) == table_hash([(1, "a"), (2, "b", 3.5)])
    assert table_hash(rows) != table_hash([(1, "a"), (2, "b", 3.6)])
    assert table_hash([]) == "d41d8cd98f00b204e9800998ecf8427e"  # MD5 of nothing


def test_an_answer_is_a_list_of_rows_or_nothing() -> None:
    assert read_answer("[(Decimal('3.50'), 'x'), [None, 2]]") == [(3.5, "x"), (None, 2)]
    assert read_answer("[]") == []
    for other in ("5", "[1, 2]", "[(1,)", "__import__('os')", "(" * 5000, "[" * 100_000, "x", "", "{1: 2}"):
        assert read_answer(other) is None, other[:20]
    assert same_rows([(1, None)], [[1.0000001, None]])
    assert not same_rows([("1",)], [[1]])
    assert not same_rows([(1.001,)], [[1.0]])


# --- the contract ---


def test_restart_gives_the_identical_start(env: TextEnv) -> None:
    for instance in (QUESTION, CHANGE):
        trace = contract.check_restart(env, instance, gold(instance))
        assert trace[-1][4] is True


def test_hostile_actions_leave_the_environment_usable(env: TextEnv) -> None:
    contract.check_hostile(env, CHANGE, gold(CHANGE))


def test_two_processes_see_the_same(options: dict[str, Any]) -> None:
    contract.check_determinism("lab-db", options, QUESTION, [*gold(QUESTION)])


def test_close_leaves_nothing(options: dict[str, Any]) -> None:
    contract.check_close(lambda: registry.make("lab-db", options), CHANGE, gold(CHANGE))


def test_two_hundred_episodes_leave_nothing_behind() -> None:
    ids = portable()
    with contextlib.closing(registry.make("lab-db", {})) as env:
        contract.check_many_episodes(env, lambda env, index: solved_by_gold(env, ids[index]) or None)


@pytest.mark.parametrize("instance", [-1, "500", "no such task", None])
def test_an_instance_that_does_not_exist_is_named(instance: Any) -> None:
    env = registry.make("lab-db", {})
    with pytest.raises(EnvSetupError, match=str(instance)):
        env.reset(options={"instance": instance})
    with pytest.raises(EnvSetupError, match="reset"):
        env.restart()


def test_an_invalid_answer_costs_a_round_or_ends_the_episode() -> None:
    for ends in (False, True):
        env = registry.make("lab-db", {"end_on_invalid": ends})
        first, _ = env.reset(options={"instance": CHANGE})
        observation, reward, over, _, info = env.step("")
        assert (observation, reward, over, info["invalid"]) == (first, 0.0, ends, True)
        env.close()


def test_splits_are_fixed_by_the_seed_and_share_nothing() -> None:
    train, held = (registry.instances("lab-db", {}, split) for split in registry.SPLITS)
    assert not set(train) & set(held)
    assert 0.15 < len(held) / 406 < 0.25
    every = registry.instances("lab-db", {"tasks": "all"}, "eval")
    assert len(every) + len(registry.instances("lab-db", {"tasks": "all"}, "train")) == 500
    assert set(held) == set(every) & set(portable())
    assert registry.instances("lab-db", {"split_seed": 1}, "eval") != held


@pytest.mark.parametrize("url", ["postgres://h", "mysql://", "mysql://h:x", "localhost:3306", "mysql://h/db"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(EnvSetupError, match="mysql://user:password@host:port"):
        registry.validate_options("lab-db", {"url": url})


def test_a_server_that_is_not_there_is_one_line() -> None:
    env = registry.make("lab-db", {"url": "mysql://root@127.0.0.1:1"})
    with pytest.raises(EnvSetupError, match=r"127\.0\.0\.1:1 .*mariadb-server") as error:
        env.reset(options={"instance": CHANGE})
    assert "\n" not in str(error.value)


# --- hostile SQL ---

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n, n AS m"


def untouched(env: TextEnv) -> None:
    """The environment still works: the next episode is won."""
    env.reset(options={"instance": CHANGE})
    assert contract.played(env, gold(CHANGE))[-1][4] is True


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH DATABASE '{file}' AS other",
        "VACUUM INTO '{file}'",
        "PRAGMA journal_mode = WAL",
        "PRAGMA hard_heap_limit = 0",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('{file}')",
        "SELECT writefile('{file}', 'x')",
        "CREATE VIRTUAL TABLE v USING fts5(x)",
        "SELECT 1; DROP TABLE membership_payments",
        "SELECT 'a\0b'",
        "SELECT '\ud83d'",
        ENDLESS,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT hex(randomblob(40000)) AS x FROM n ORDER BY x",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) INSERT INTO membership_payments "
        "SELECT i, i, i, i, hex(randomblob(40000)) FROM n",
        "SELECT zeroblob(2000000000)",
        "SELECT printf('%.*c', 2000000000, 'x')",
        "SELECT '" + "a" * 5000 + "' LIKE '" + "%a" * 3000 + "b'",
        "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    ],
)  # fmt: skip
def test_sqlite_stays_within_its_walls(statement: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    with contextlib.closing(registry.make("lab-db", {"statement_seconds": 0.5})) as env:
        env.reset(options={"instance": CHANGE})
        before = contract.tree_rss_mib()
        observation, _, _, _, info = env.step(statement.replace("{file}", str(file)))
        assert info["error"] is True
        assert observation.startswith("Error: ")
        assert list(tmp_path.iterdir()) == []
        assert contract.tree_rss_mib() < before + 400
        untouched(env)


def test_sqlite_stops_what_takes_too_long_and_says_so() -> None:
    with contextlib.closing(registry.make("lab-db", {"statement_seconds": 0.2})) as env:
        env.reset(options={"instance": CHANGE})
        assert "stopped after 0.2 s" in env.step(ENDLESS)[0]


@pytest.mark.parametrize(
    "statement",
    [
        "SHUTDOWN",
        "SELECT * FROM mysql.user",
        "SELECT 'x' INTO OUTFILE '{file}'",
        "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE membership_payments",
        "SELECT LOAD_FILE('/etc/passwd') + (SELECT 1 FROM mysql.db)",
        "DROP DATABASE mysql",
        "CREATE DATABASE agentmem",
        "CREATE USER mallory",
        "SET GLOBAL max_connections = 1",
        "INSTALL SONAME 'x'",
        "SELECT 1; DROP TABLE membership_payments",
        "SELECT '\ud83d",
        "SELECT '%s %d %(x)s' FROM nowhere",
        "KILL CONNECTION_ID()",
        "CREATE OR REPLACE TABLE t (x INT) SELECT 1 AS x UNION SELECT BENCHMARK(1e12, SHA2('x', 512))",
    ],
)
def test_mariadb_keeps_the_agent_in_its_own_database(server: str, statement: str, tmp_path: Path) -> None:
    file = tmp_path / "out"
    with contextlib.closing(registry.make("lab-db", {"statement_seconds": 0.5, "url": server})) as env:
        env.reset(options={"instance": CHANGE})
        tmp_path.chmod(0o777)
        _, _, _, _, info = env.step(statement.replace("{file}", str(file)))
        assert info["error"] is True
        assert list(tmp_path.iterdir()) == []
        untouched(env)


@pytest.mark.parametrize(
    "statement", [ENDLESS, "SELECT BENCHMARK(1e12, SHA2('x', 512))", "SELECT SLEEP(3600)"]
)
def test_mariadb_hangs_on_nothing(server: str, statement: str) -> None:
    with contextlib.closing(registry.make("lab-db", {"statement_seconds": 0.5, "url": server})) as env:
        env.reset(options={"instance": CHANGE})
        env.step(statement)  # the server cuts some short without calling it an error
        untouched(env)


def test_mariadb_ends_a_statement_whose_time_limit_the_agent_switched_off(server: str) -> None:
    options = {"statement_seconds": 0.5, "url": server}
    with contextlib.closing(registry.make("lab-db", options)) as env:
        env.reset(options={"instance": CHANGE})
        env.step("SET SESSION max_statement_time = 0")
        observation, _, over, _, info = env.step("SELECT SLEEP(3600)")
        assert info["error"] is True
        assert over is False
        assert "stopped after 0.5 s" in observation
        untouched(env)


def test_the_agent_may_drop_its_own_database_without_harm(server: str) -> None:
    with contextlib.closing(registry.make("lab-db", {"url": server})) as env:
        env.reset(options={"instance": CHANGE})
        (name,) = {name for name in databases(server) if name.startswith("agentmemlab")}
        env.step(f"DROP DATABASE {name}")
        assert env.step("answer: done")[4]["success"] is False
        untouched(env)
    assert databases(server) == set()


_HELD = """
import sys
from envs import registry
env = registry.make("lab-db", {"url": sys.argv[1]})
env.reset(options={"instance": "0"})
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_left_on_the_server_goes_with_the_next_environment(server: str) -> None:
    killed = subprocess.Popen(
        [sys.executable, "-c", _HELD, server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert killed.stdout is not None
    assert killed.stdout.readline() == "ready\n"
    held = databases(server)
    assert len(held) == 1
    with contextlib.closing(registry.make("lab-db", {"url": server})) as env:
        env.reset(options={"instance": CHANGE})
        assert held < databases(server)  # a living owner keeps what it has
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=10)
    with contextlib.closing(registry.make("lab-db", {"url": server})) as env:
        for _ in range(100):  # the server frees the lock when it sees the connection end
            env.reset(options={"instance": CHANGE})
            env.close()
            if not databases(server):
                break
    assert databases(server) == set()


# --- text ---


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("I think.\n<action> SELECT 1; </action>", "SELECT 1;"),
        ("<action>answer: [(1, 'x')]</action>", "answer: [(1, 'x')]"),
        ("So.\nAction: Operation\n```sql\nSELECT a FROM t;\n```\n```sql\nDROP t\n```", "SELECT a FROM t;"),
        ("Action: Answer\nFinal Answer: [(1, 'John', 'HR')]", "answer: [(1, 'John', 'HR')]"),
        ("<think><action>SELECT 0</action></think><action>SELECT 2</action>", "SELECT 2"),
    ],
)  # fmt: skip
def test_our_form_and_the_benchmarks_own_are_read(response: str, action: str) -> None:
    parsed = style(Options()).parse_action(response)
    assert (parsed.text, parsed.invalid) == (action, False)


@pytest.mark.parametrize(
    "response", ["", "SELECT 1", "<action></action>", "Action: Operation", "Final Answer: 3"]
)
def test_an_answer_without_an_action_is_invalid(response: str) -> None:
    assert style(Options()).parse_action(response).invalid is True


def test_each_prompt_extends_the_one_before_and_has_the_task_in_it() -> None:
    env = registry.make("lab-db", {})
    seen, info = env.reset(options={"instance": QUESTION})
    steps: tuple[Step, ...] = ()
    before: tuple[Message, ...] = ()
    for action in gold(QUESTION):
        view = View(seen, steps, instruction=info["instruction"])
        prompt = env.style.act_prompt(view)
        assert isinstance(prompt, tuple)
        assert prompt[: len(before)] == before
        assert entry(QUESTION)["instruction"] in prompt[1].content
        before = prompt
        after, reward, _, _, _ = env.step(action)
        steps += (Step(seen, f"<action>{action}</action>", (action,), reward),)
        seen = after
    account = env.summarise(EpisodeRecord(0, steps, seen, True, "success"))
    assert gold(QUESTION)[0] in account
    env.close()


def test_a_long_result_is_cut_with_a_mark() -> None:
    env = registry.make("lab-db", {"max_observation_chars": 100})
    env.reset(options={"instance": CHANGE})
    seen = env.step("SELECT * FROM membership_payments")[0]
    assert len(seen) < 160
    assert "more characters are not shown" in seen
    env.close()
