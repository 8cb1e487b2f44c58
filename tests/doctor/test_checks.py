"""Each check finds the fault that was staged for it, in one line with a remedy and its exit status."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from actors.placement import Request
from agentmem.app.doctor import cluster, configured, machines, models, servers
from agentmem.app.doctor.finding import Finding, Verdict, examine, line
from agentmem.app.doctor.patient import Patient
from agentmem.app.live.joining import resources
from learner.rendezvous import own_address
from tests.doctor.faults import edited, patient, redis, second_node

GIB = 1 << 30


def told(check: str, look: object, one: Patient) -> Finding:
    return examine(check, lambda: look(one))  # type: ignore[operator]


def bad(look: object, one: Patient, status: int, text: str) -> None:
    found = told("x", look, one)
    assert found.verdict is Verdict.BAD, found
    assert found.status == status, found
    assert re.search(text, line(found)), line(found)
    assert "\n" not in line(found)


def good(look: object, one: Patient, text: str) -> None:
    found = told("x", look, one)
    assert found.verdict is Verdict.GOOD, found
    assert re.search(text, found.found), found


def unseen(look: object, one: Patient, text: str) -> None:
    found = told("x", look, one)
    assert found.verdict is Verdict.UNSEEN, found
    assert re.search(text, found.found), found


def test_settings_that_no_run_can_begin_with() -> None:
    good(configured.settings, patient(), r"lamer-minesweeper: method lamer, 200 updates, 16 × 8 trials")
    without = patient("advice.stage1.bank=/no/such/bank.jsonl", recipe="mempi-doors-stage1")
    bad(configured.settings, without, 2, r"/no/such/bank.jsonl")


def test_a_password_in_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTMEM_REDIS_PASSWORD", raising=False)
    bad(
        configured.secrets,
        patient("replay.url=redis://:geheim@host:6379/0"),
        2,
        r"replay.url holds a password, .* → write redis://\*\*\*@host:port, and set AGENTMEM_REDIS_PASSWORD",
    )
    assert "geheim" not in line(told("x", configured.secrets, patient("replay.url=redis://:geheim@h/0")))
    referring = patient("replay.url=redis://***@host:6379/0")
    bad(configured.secrets, referring, 2, r"whose password isn't stored: set AGENTMEM_REDIS_PASSWORD")
    monkeypatch.setenv("AGENTMEM_REDIS_PASSWORD", "geheim")
    good(configured.secrets, referring, r"by reference: AGENTMEM_REDIS_PASSWORD, set")


def test_an_endpoint_whose_key_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    one = patient(
        "policies.agent.model=some-model",
        "policies.agent.trained=false",
        "policies.agent.endpoint={url: 'http://127.0.0.1:9/v1', key_env: NO_SUCH_KEY}",
        "engines.memory.backend=torch",
        recipe="mempi-doors",
    )
    bad(
        configured.secrets,
        one,
        2,
        r"NO_SUCH_KEY isn't set \(policies.agent.endpoint.key_env\) → set it where",
    )


def test_data_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTMEM_DATA", str(tmp_path))
    one = patient("env.name=lab-db", "env.options={}", "env.placement=worker")
    bad(
        configured.environment,
        one,
        2,
        r"lab/db_entry_dict.json.xz, which isn't in .*`agentmem data fetch lab-db`",
    )


def test_a_package_that_a_node_lacks() -> None:
    one = second_node(patient(), environment=("minesweeper: missing package x: pip install x",))
    bad(
        configured.environment,
        one,
        2,
        r"node 10.0.0.2 \(ab12cd\): minesweeper: missing package x.* → install it",
    )
    good(configured.environment, patient(), r"minesweeper: ready, 2800 training and 688 held-out instances")


def test_a_data_file_with_another_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTMEM_DATA", str(tmp_path))
    damaged = tmp_path / "lab" / "db_entry_dict.json.xz"
    damaged.parent.mkdir()
    damaged.write_bytes(b"not what it was")
    one = patient("env.name=lab-db", "env.options={}", "env.placement=worker")
    bad(configured.data, one, 2, r"db_entry_dict.json.xz: not the content it should have → remove it and run")
    unseen(configured.data, patient(), "minesweeper needs no data files")
    damaged.unlink()
    unseen(configured.data, one, r"none of 2 known files is in .* \(AGENTMEM_DATA\)")


def test_a_job_that_is_too_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(101 << 20)
    bad(
        configured.upload,
        patient(include=(Path("weights.bin"),)),
        2,
        r"more than 100 MiB can't be uploaded; the largest are weights.bin \(105.9 MB\), .*; put data on a",
    )
    good(configured.upload, patient(), r"^[123]\.\d MB in \d+ files for a job")


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    bad(
        models.files,
        patient("policies.agent.model=/no/such/model"),
        3,
        r"model '/no/such/model': no such directory",
    )
    (tmp_path / "config.json").write_text('{"vocab_size": 8}')
    empty = patient(f"policies.agent.model={tmp_path}")
    bad(models.files, empty, 3, r"no weights at .*: there is no \*.safetensors file")
    unseen(models.tokenizer, empty, "policy 'agent' has no model here yet")


def test_a_model_of_the_hub_that_may_not_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    bad(
        models.files,
        patient("policies.agent.model=nobody/no-such-model"),
        3,
        r"'nobody/no-such-model' isn't in the hub's cache here, and HF_HUB_OFFLINE .* → fetch it there once",
    )


def test_a_tokenizer_of_another_model(tiny_model: Path, tmp_path: Path) -> None:
    mixed = patient(
        f"policies.agent.model={edited(tiny_model, tmp_path / 'm', 'config.json', vocab_size=100)}"
    )
    good(models.files, mixed, r"0.3M parameters in ")
    bad(models.tokenizer, mixed, 3, r"tokenizer has ids up to 1159, but the model's vocab_size is 100")


def test_a_model_without_a_chat_template_where_prompts_are_messages(tiny_model: Path, tmp_path: Path) -> None:
    bare = edited(tiny_model, tmp_path / "bare", "tokenizer_config.json", chat_template=None)
    (bare / "chat_template.jinja").unlink(missing_ok=True)
    one = patient(f"policies.agent.model={bare}", "env.options.format=text")
    good(models.files, one, "parameters")
    bad(models.chat_template, one, 3, r"no chat template, but the environment's prompts are chat messages")
    unending = patient(f"policies.agent.model={tiny_model}", "env.options.format=text")
    good(models.files, unending, "parameters")
    bad(
        models.chat_template,
        unending,
        3,
        r"doesn't close an answer .* → set the stop tokens in generation_config",
    )
    raw = patient(f"policies.agent.model={tiny_model}")
    good(models.files, raw, "parameters")
    unseen(models.chat_template, raw, "raw text")


def test_a_model_made_for_another_game(tiny_model: Path) -> None:
    own = patient(f"policies.agent.model={tiny_model}")
    good(models.files, own, "parameters")
    good(models.words, own, r"all 1156 words of the compact format")
    other = patient(f"policies.agent.model={tiny_model}", recipe="lamer-scout")
    good(models.files, other, "parameters")
    bad(
        models.words,
        other,
        3,
        r"its tokenizer lacks \d+ of the \d+ words of scout's compact format \(.*\) → take",
    )


def test_a_memory_policy_without_decision_tokens(tiny_model: Path) -> None:
    one = patient(f"policies.memory.model={tiny_model}", "engines.memory.backend=torch", recipe="mempi-doors")
    one.models["memory"] = tiny_model
    bad(models.words, one, 3, r"lacks \d+ of the|lacks \[GENERATE\] and \[ABSTAIN\]")


def test_a_chat_model_keeps_reflection_tags_and_earlier_turns(tmp_path: Path) -> None:
    from agentmem.app.models.resolve import resolve_for

    chat = patient("policies.agent.model=smollm2", "rollout.memory=reflection")
    chat.models["agent"] = resolve_for(chat.config)
    good(models.chat_template, chat, "agent: prefix-stable")
    good(models.words, chat, "agent: reflection tags come back as they were")
    # A tokenizer that takes the tags for special tokens drops them when it decodes.
    broken = tmp_path / "tags"
    shutil.copytree(chat.models["agent"], broken)
    from tokenizers import AddedToken, Tokenizer

    tokenizer = Tokenizer.from_file(str(broken / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<remark>", "</remark>")])
    tokenizer.save(str(broken / "tokenizer.json"))
    chat.models["agent"] = broken
    bad(models.words, chat, 3, r"<remark>…</remark> comes back from its tokenizer as 'look left first'")


def test_an_engine_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.engine import vllm_engine

    one = patient("engines.agent.backend=vllm")
    good(servers.engines, one, r"vLLM 0\.32\.\d+ with weight update and processed_logprobs")
    monkeypatch.setattr(vllm_engine, "VERSION_WINDOW", ((0, 28), (0, 29)))
    bad(
        servers.engines, one, 2, r"vLLM 0\.32\.\d is installed, but this adapter supports 0.28 to before 0.29"
    )


def test_an_engine_that_cannot_tell_processed_log_probs(monkeypatch: pytest.MonkeyPatch) -> None:
    from actors.engine import vllm_engine

    monkeypatch.setattr(vllm_engine, "LOGPROBS", "no_such_mode")
    bad(servers.engines, patient("engines.agent.backend=vllm"), 2, r"lacks logprobs_mode no_such_mode")


def test_nodes_with_different_packages() -> None:
    one = second_node(patient(), versions={"torch": "1.0", "ray": "2.60.0"})
    bad(servers.engines, one, 2, r"node 10.0.0.2 \(ab12cd\) has torch 1.0, this one 2\..* → use one image")


def test_a_replay_server_that_nobody_answers_for() -> None:
    one = patient("replay.url=redis://127.0.0.1:1/0")
    bad(servers.replay, one, 5, r"replay server redis://127.0.0.1:1/0 can't be reached for 5 s")


def test_a_replay_server_that_evicts() -> None:
    with redis(maxmemory="100mb", maxmemory_policy="allkeys-lru") as url:
        bad(
            servers.replay,
            patient(f"replay.url={url}"),
            5,
            r"maxmemory-policy allkeys-lru, .*: set maxmemory-policy",
        )


def test_a_replay_server_without_a_file() -> None:
    with redis() as url:
        bad(
            servers.replay_file,
            patient(f"replay.url={url}"),
            5,
            r"no append-only file: .* → set appendonly yes",
        )


def test_a_replay_server_with_too_little_memory() -> None:
    with redis(maxmemory="100mb") as url:
        bad(
            servers.replay_memory,
            patient(f"replay.url={url}"),
            5,
            r"maxmemory is 100 MiB, the buffer may take 512 MiB .* → give the server 614 MiB",
        )


def test_a_replay_server_that_asks_nobody_for_a_password() -> None:
    with redis(own_address(), protected_mode="no") as url:
        bad(
            servers.replay_password,
            patient(f"replay.url={url}"),
            5,
            r"asks for no password → set requirepass",
        )
    with redis() as url:
        good(servers.replay_password, patient(f"replay.url={url}"), "none, and it is local")


def test_the_server_that_a_run_brings_itself_passes() -> None:
    good(
        servers.replay, patient(), r"(Valkey|Redis) \d+\.\d+.*, noeviction \(embedded, started with the run\)"
    )
    good(servers.replay_file, patient(), "appendonly yes")
    good(servers.replay_password, patient(), "asked for")
    good(servers.replay_memory, patient(), "buffer at most 512 MiB")


def test_another_ray() -> None:
    one = patient()
    one.nodes[0].versions["ray"] = "2.40.0"
    bad(machines.ray_package, one, 2, r"Ray 2.40.0 is installed → 2.52 to before 3 are known")


def test_a_cluster_that_may_be_open_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    one = patient(address="10.0.0.1:6379")
    monkeypatch.delenv("RAY_AUTH_MODE")
    bad(
        machines.authentication,
        one,
        4,
        r"RAY_AUTH_MODE isn't set, .*10.0.0.1:6379\) → set RAY_AUTH_MODE=token",
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    bad(machines.authentication, one, 4, r"RAY_AUTH_MODE is 'disabled'")
    good(machines.authentication, patient(address="127.0.0.1:6379"), "disabled, on a loopback address")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    good(machines.authentication, one, "token")


def test_a_full_disk_and_one_that_nobody_may_write(tiny_model: Path) -> None:
    full = second_node(patient())
    full.nodes = [full.nodes[0].__class__(**{**_fields(full), "runs_free": GIB // 2})]
    bad(
        machines.disk,
        full,
        4,
        r"0.5 GiB are free for runs, 1.0 GiB may be needed .* → make room, or set AGENTMEM_RUNS",
    )
    closed = patient()
    closed.nodes = [closed.nodes[0].__class__(**{**_fields(closed), "cache_free": -1})]
    bad(machines.disk, closed, 4, r"models can't be written → set AGENTMEM_CACHE")


def _fields(one: Patient) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(one.nodes[0])


def test_a_container_with_64_mib_of_shared_memory() -> None:
    one = second_node(patient(), shm_free=64 << 20)
    bad(
        machines.shared_memory,
        one,
        4,
        r"10.0.0.2 .*: 64 MiB are free in /dev/shm, 512 MiB are needed → give containers",
    )


def test_a_node_with_other_sources() -> None:
    bad(
        machines.code,
        second_node(patient(), code="0123456789ab"),
        2,
        r"its AgentMem is 0123456789ab, this one's",
    )
    bad(machines.code, second_node(patient(), python="3.12.1"), 2, r"it runs Python 3.12.1, this one 3.11")


def test_a_node_that_does_not_see_the_runs() -> None:
    one = second_node(patient(), seen=(False,))
    bad(machines.shared_directory, one, 4, r"doesn't see the directory of runs .* → put AGENTMEM_RUNS")
    unseen(machines.shared_directory, patient(), "one machine")


def test_a_node_whose_clock_is_wrong() -> None:
    one = second_node(patient())
    one.clocks = {"10.0.0.2 (ab12cd)": (-7.25, 0.01)}
    bad(machines.clock, one, 4, r"10.0.0.2 \(ab12cd\) is 7.2 s behind → synchronise the clocks")
    one.clocks = {"10.0.0.2 (ab12cd)": (0.004, 0.01)}
    good(machines.clock, one, r"10.0.0.2 \(ab12cd\): within 0.004 s")


def test_a_placement_that_the_cluster_cannot_meet() -> None:
    one = patient("engines.agent.gpus=1", "engines.agent.replicas=4")
    one.resources = {"a": {"CPU": 16.0, "GPU": 2.0}}
    requests = resources(one.config)
    bad(
        lambda p: cluster.placement(requests, p),
        one,
        6,
        r"4 GPU asked for by engines.agent \(4\) 4, the cluster has 2",
    )
    split = [Request("engines.agent", count=1, cpus=1, gpus=4)]
    one.resources = {"a": {"CPU": 16.0, "GPU": 2.0}, "b": {"CPU": 16.0, "GPU": 2.0}}
    said = r"engines.agent: room for 0 of 1 \(each asks for 1 CPU, 4 GPU\); .* on 2 nodes → add nodes"
    bad(lambda p: cluster.placement(split, p), one, 6, said)
    growing = patient("scaling.machine_wait_s=60")
    growing.resources = one.resources
    unseen(lambda p: cluster.placement(split, p), growing, "its autoscaler would have 60 s to add machines: ")
    enough = [Request("engines.agent", count=2, cpus=1, gpus=2)]
    good(lambda p: cluster.placement(enough, p), one, "2 parts with 2 CPUs and 4 GPUs fit")


def test_a_check_that_breaks_is_a_finding_and_hides_nothing() -> None:
    found = examine("x", lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    assert line(found) == "✘ x  the check broke: ZeroDivisionError: integer division or modulo by zero"
    assert found.status == 1
