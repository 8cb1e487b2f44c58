"""Which arms are played, what each needs, and `arms.json`: what a directory of arms is about.

A directory holds one seed. Called again, the command goes on where it was; what has changed meanwhile (the
bank, a model, the agent, settings that hints depend on) is refused, since lines of both would stand beside
each other as one arm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentmem.app.reporting.rundir import RunDir
from agentmem.config import RunConfig
from agentmem.failures import ConfigError, ModelError

ARMS = ("none", "untrained", "rag", "rag-abstain", "memrl", "stage1", "full", "full-always", "oracle")
LOOKED_UP = ("rag", "rag-abstain", "memrl")
"""Their hints are the bank's own: they need no model."""
WRITTEN = {"untrained": "untrained", "stage1": "stage1", "full": "full", "full-always": "full"}
"""Arms whose hints a memory policy writes -> its model."""
FILE = "arms.json"
_ENDS = 1 << 20
"""Bytes at either end of a weights file that tell it from another."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A file or a model, by where it was and what was in it."""

    path: str
    digest: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """See the module's docstring."""

    target: str
    seed: int
    fit_tasks: int
    plays: dict[str, Any]
    """What a trial's outcome depends on beside task and hint."""
    asks: dict[str, Any]
    """What hints depend on beside bank and models."""
    bank: Mark
    models: dict[str, Mark]


def chosen_arms(given: str | None) -> tuple[str, ...]:
    """The arms of `--arms a,b`, in the tables' order, with what they are read against. Raises ConfigError."""
    names = [name.strip() for name in (given or ",".join(ARMS)).split(",") if name.strip()]
    for name in names:
        if name not in ARMS:
            raise ConfigError(f"--arms: '{name}' is unknown; arms are {', '.join(ARMS)}")
    if not names:
        raise ConfigError(f"--arms is '{given}': names none; arms are {', '.join(ARMS)}")
    wanted = {"none", *names}
    if "oracle" in wanted:
        wanted.add("full-always")
    return tuple(arm for arm in ARMS if arm in wanted and arm != "oracle")


def model_dir(option: str, which: str | None, arms: Sequence[str], config: RunConfig) -> Path:
    """The model of `--stage1` or `--full`: a directory, or a run's final model. Raises ConfigError or
    ModelError naming the option."""
    from agentmem.app.live.preflight import check_memory_model

    if which is None:
        raise ConfigError(
            f"{option} is missing: arm '{arms[0]}' needs it; --arms names those to play without it"
        )
    path = Path(which).expanduser()
    if not (path / "config.json").is_file():
        path = _final_model(option, which)
    try:
        check_memory_model(config, path)
    except ModelError as error:
        raise ModelError(f"{option}: {error}") from error
    return path.resolve()


def _final_model(option: str, which: str) -> Path:
    try:
        run = RunDir.find(which)
    except ConfigError:
        raise ConfigError(f"{option} {which}: neither a model's directory nor a run") from None
    if not any(run.final_model.glob("*.safetensors")):
        raise ConfigError(f"{option} {which}: the run has no final model; go on with --resume")
    return run.final_model


def scripted(config: RunConfig) -> bool:
    """Whether the agent is an environment's script: then equal hints lead to equal trials."""
    agent = config.policies["agent"]
    return not agent.served and agent.endpoint is None


def plays_of(config: RunConfig) -> dict[str, Any]:
    """See Manifest."""
    env, evaluation = config.env, config.evaluation
    agent = config.policies["agent"].model_dump(mode="json")
    found = {
        "env.name": env.name,
        "env.options": env.options,
        "env.prompting": env.prompting,
        "env.max_turns": env.eval_max_turns or env.max_turns,
        "evaluation.episodes": evaluation.episodes,
        "rollout.memory": config.rollout.memory,
        "policies.agent": {"model": agent["model"]} if scripted(config) else agent,
    }
    if not scripted(config):
        found["evaluation.sampling"] = evaluation.sampling.model_dump(mode="json")
    return _plain(found)


def asks_of(config: RunConfig) -> dict[str, Any]:
    """See Manifest."""
    advice, evaluation = config.advice, config.evaluation
    return _plain(
        {
            "advice.max_tokens": advice.max_tokens,
            "advice.threshold": advice.threshold,
            "advice.reward": advice.reward,
            "evaluation.sampling": evaluation.sampling.model_dump(mode="json"),
            "evaluation.seed": evaluation.seed,
            "memory.embedder": config.memory.embedder,
        }
    )


def settle(out: Path, manifest: Manifest) -> None:
    """Write `arms.json`, or go on with one that agrees. Raises ConfigError naming what doesn't."""
    path = out / FILE
    if path.is_file() and any((out / name).is_file() for name in ("trials.jsonl", "fit.jsonl")):
        before = read_manifest(path)
        for field in ("target", "seed", "fit_tasks", "plays", "asks"):
            _same(out, field, getattr(before, field), getattr(manifest, field))
        _same(out, f"the bank {manifest.bank.path}", before.bank.digest, manifest.bank.digest)
        for name, mark in manifest.models.items():
            if name in before.models:
                _same(out, f"the model '{name}'", before.models[name].digest, mark.digest)
        manifest = msgspec.structs.replace(manifest, models={**before.models, **manifest.models})
    part = path.with_name(path.name + ".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    part.replace(path)


def read_manifest(path: Path) -> Manifest:
    """Raises ConfigError for another file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Manifest)
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: not written by agentmem arms: {error}") from error


def _same(out: Path, what: str, before: Any, now: Any) -> None:
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        what = next(key for key in {**before, **now} if before.get(key) != now.get(key))
        before, now = before.get(what), now.get(what)
    raise ConfigError(
        f"--out {out} holds arms of another setting: {what} was {before!r} and is {now!r}; "
        "choose another name"
    )


def mark_file(path: Path) -> Mark:
    """Of a whole file."""
    return Mark(path=str(path), digest=hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest())


def mark_model(path: Path) -> Mark:
    """Of a model's directory: its configuration, its tokenizer, and size and both ends of its weights."""
    digest = hashlib.blake2b(digest_size=12)
    for file in sorted([*path.glob("*.json"), *path.glob("*.safetensors")]):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(_ENDS))
            if size > _ENDS:
                stream.seek(max(_ENDS, size - _ENDS))
                digest.update(stream.read())
    return Mark(path=str(path), digest=digest.hexdigest())


def _plain(tree: dict[str, Any]) -> dict[str, Any]:
    """As it will be read back."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(tree))
    return found
