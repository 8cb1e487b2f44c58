"""Checks of models: files, tokenizer, chat template, and the words that a method relies on."""

from __future__ import annotations

import json
from pathlib import Path

from agentmem.app.doctor.finding import Unfit, Unseen
from agentmem.app.doctor.patient import Patient
from agentmem.config import RunConfig
from agentmem.failures import ModelError

HUB_S = 10.0
"""How long the model hub may take to say that it has a model."""


def files(patient: Patient) -> str:
    """Config, weights and context length of every model, as the engines read them."""
    from actors.engine.checkpoint import read_checkpoint
    from actors.engine.protocol import EngineConfig
    from agentmem.app.models.resolve import resolve_for

    told = []
    for name in patient.served():
        policy = patient.config.policies[name]
        path = patient.models.get(name) or _found(patient.config, name)
        if path is None and patient.making:
            path = resolve_for(patient.config, name)
        if path is None:
            told.append(f"{name}: {policy.model}, made at the start of the run")
            continue
        shapes, _ = read_checkpoint(EngineConfig(model=str(path), max_model_len=policy.context_length))
        patient.models[name] = path
        told.append(f"{name}: {policy.model}, {parameters(shapes) / 1e6:.1f}M parameters in {path}")
    return "; ".join(told)


def parameters(shapes: object) -> int:
    """How many numbers these tensors hold."""
    from math import prod

    assert isinstance(shapes, dict)
    return sum(prod(shape) for shape in shapes.values())


def _found(config: RunConfig, name: str) -> Path | None:
    """The model's directory; None for one that is made at the start. Raises ModelError, Unfit."""
    from agentmem.app.models.resolve import MADE_HERE, check_named, made_already

    model = config.policies[name].model
    check_named(model)
    if model in MADE_HERE:
        return made_already(config, name)
    path = Path(model).expanduser()
    return path.resolve() if path.is_dir() else _of_the_hub(model)


def _of_the_hub(model: str) -> Path:
    import os

    from huggingface_hub import snapshot_download

    from agentmem.app.models.resolve import HUB_FILES

    try:
        return Path(snapshot_download(model, allow_patterns=list(HUB_FILES), local_files_only=True))
    except Exception as missing:  # of several classes, all of which mean that it isn't here
        if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0"):
            raise Unfit(
                ModelError,
                f"model '{model}' isn't in the hub's cache here, and HF_HUB_OFFLINE forbids to fetch it",
                f"fetch it there once (`hf download {model}`), or give a directory",
            ) from missing
    from huggingface_hub import HfApi

    try:
        HfApi().model_info(model, timeout=HUB_S)
    except Exception as error:  # names refused, no network, no such model
        cause = " ".join(str(error).split())[:160]
        raise Unfit(
            ModelError,
            f"model '{model}': neither here nor to be had from the hub ({cause})",
            "give a directory",
        ) from error
    raise Unseen(f"'{model}' is on the model hub and not here: it is fetched at the start of the run")


def tokenizer(patient: Patient) -> str:
    """It belongs to its model, and an answer can end."""
    from agentmem.chat import ChatCodec

    told = []
    for name in patient.served():
        codec = ChatCodec(patient.model(name))
        codec.check_servable(messages=False)
        told.append(f"{name}: {codec.vocabulary_size} tokens, answers end with {codec.end_token_id}")
    return "; ".join(told)


def chat_template(patient: Patient) -> str:
    """There is one where prompts are messages; whether a conversation goes on from its earlier prompts."""
    from agentmem.app.models.resolve import takes_messages
    from agentmem.chat import ChatCodec

    config, told = patient.config, []
    for name in patient.served():
        if not takes_messages(config.env.name, config.env.options, advises=name == "memory"):
            continue
        codec = ChatCodec(patient.model(name), template_options=config.policies[name].template_options)
        servable = codec.check_servable(messages=True)
        if servable.notes and servable.prefix_stable:  # no stop token closes an answer
            raise Unfit(ModelError, servable.notes[0], "set the stop tokens in generation_config.json")
        stable = (
            "prefix-stable" if servable.prefix_stable else "rewrites earlier turns: each trains as a fork"
        )
        told.append(f"{name}: {stable}")
    if not told:
        raise Unseen(f"prompts of {config.env.name} are raw text with these env.options")
    return "; ".join(told)


def words(patient: Patient) -> str:
    """What a method reads in answers can be written: reflection tags, decision tokens, a compact format's
    words."""
    told = []
    for name in patient.served():
        told += _tags(patient, name) if name == "agent" else []
        told += _compact(patient, name)
        if name == "memory":
            from agentmem.chat.decision import DecisionTokens

            tokens = DecisionTokens.of(patient.model(name))
            told.append(f"{name}: decision tokens {tokens.generate} and {tokens.abstain}")
    if not told:
        raise Unseen("this run's answers need no words of their own")
    return "; ".join(told)


def _tags(patient: Patient, name: str) -> list[str]:
    from agentmem.app.models.resolve import takes_messages
    from agentmem.chat import ChatCodec
    from envs.registry import style

    config = patient.config
    if config.rollout.memory not in ("reflection", "both"):
        return []
    if not takes_messages(config.env.name, config.env.options):
        return []
    codec = ChatCodec(patient.model(name))
    written = codec.decode(codec.plain("<remark>look left first</remark>"))
    styles = style(config.env.name, config.env.options).each().values()
    if any(each.parse_reflection(written).text != "look left first" for each in styles):
        raise Unfit(
            ModelError,
            f"model {patient.model(name)}: <remark>…</remark> comes back from its tokenizer as {written!r}, "
            "so no reflection would be read",
            "take another model, or rollout.memory=history",
        )
    return [f"{name}: reflection tags come back as they were"]


def _compact(patient: Patient, name: str) -> list[str]:
    from agentmem.app.models.resolve import takes_messages
    from agentmem.chat import ChatCodec
    from envs.registry import warm_start

    config = patient.config
    offered = warm_start(config.env.name, config.env.options)
    if offered is None or takes_messages(config.env.name, config.env.options, advises=name == "memory"):
        return []
    path = patient.model(name)
    codec = ChatCodec(path)
    unknown = _unknown_token(path)
    missing = [word for word in offered.vocabulary if not _written(codec.plain(word), unknown)]
    if missing:
        shown = ", ".join(missing[:5]) + (", …" if len(missing) > 5 else "")
        raise Unfit(
            ModelError,
            f"model {path}: its tokenizer lacks {len(missing)} of the {len(offered.vocabulary)} words of "
            f"{config.env.name}'s compact format ({shown})",
            f"take a model that was made for it (policies.{name}.model=tiny makes one)",
        )
    return [f"{name}: all {len(offered.vocabulary)} words of the compact format"]


def _written(ids: tuple[int, ...], unknown: int | None) -> bool:
    return bool(ids) and unknown not in ids


def _unknown_token(path: Path) -> int | None:
    """The id that stands for what a tokenizer doesn't know."""
    model = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))
    named = model["model"].get("unk_token")
    added = {token["content"]: int(token["id"]) for token in model.get("added_tokens") or ()}
    vocabulary = model["model"].get("vocab")
    known = vocabulary if isinstance(vocabulary, dict) else {}
    return added.get(named, known.get(named))
