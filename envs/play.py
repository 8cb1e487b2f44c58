"""Two ways to try an environment without a model: play it in the terminal, or measure it."""

from __future__ import annotations

import importlib
import random
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from envs.base import Instance, ParsedAction, PromptStyle, View
from envs.domains import domain_of
from envs.memory import peak_mib, tree_mib
from envs.options import EnvSetupError
from envs.registry import instances, listing_actions, make, spec, validate_options

_PAIR = re.compile(r"\(?(\d+)[\s,]+(\d+)\)?")
_LOOK_S = 0.5
"""How often a measurement looks at the memory, at most."""
HELP = "Give an action as the rules say (tags may be left out), `again` to start over, or `quit`."


def play(
    name: str,
    options: Mapping[str, Any],
    instance: Instance | None = None,
    input_fn: Callable[[str], str] = input,
    output_fn: Callable[[str], None] = print,
) -> bool:
    """A person plays one instance (the first of `eval` if none is given). Whether it was won.

    The end of the input means `quit`.
    """
    env = make(name, options)
    try:
        first = instances(name, options, "eval")[0] if instance is None else instance
        observation, info = env.reset(options={"instance": first})
        style = env.style.of(domain_of(first))
        output_fn(_introduction(style, observation, info))
        output_fn(HELP)
        total, turns = 0.0, 0
        while True:
            output_fn(observation)
            answer = _asked(input_fn)
            if answer == "quit":
                return False
            if answer == "again":
                observation, info = env.restart()
                total, turns = 0.0, 0
                continue
            action = _read(style, answer)
            observation, reward, terminated, truncated, info = env.step(action.text)
            total, turns = total + reward, turns + 1
            remark = " (not a possible action)" if info["invalid"] else ""
            output_fn(f"reward {reward:g}{remark}")
            if terminated or truncated:
                output_fn(observation)
                output_fn(f"{'Won' if info['success'] else 'Lost'} after {turns} turns, reward {total:g}")
                return bool(info["success"])
    finally:
        env.close()


def _read(style: PromptStyle, answer: str) -> ParsedAction:
    """A person's answer, written like a model's, or without its tags, or a cell as `2 3`."""
    cell = _PAIR.fullmatch(answer)
    written = f"({cell[1]},{cell[2]})" if cell else answer
    action = style.parse_action(written)
    return style.parse_action(f"<action>{written}</action>") if action.invalid else action


def _introduction(style: PromptStyle, observation: str, info: Mapping[str, Any]) -> str:
    instruction = info.get("instruction", "")
    prompt = style.act_prompt(View(observation, instruction=instruction))
    if isinstance(prompt, str):
        return f"A model sees: {prompt}"
    rules = [message.content for message in prompt if message.role == "system"]
    return "\n\n".join([*rules, instruction] if instruction else rules)


def _asked(input_fn: Callable[[str], str]) -> str:
    try:
        return input_fn("> ").strip()
    except EOFError:
        return "quit"


def bench(
    name: str,
    options: Mapping[str, Any],
    *,
    seconds: float | None = None,
    steps: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Play random actions for about `seconds` (3, or 20 if it isn't light), or for `steps` steps.

    They are admissible ones or, where an environment doesn't list these, what its module's
    `sample_action(rng, observation)` says.

    Returns `steps_per_s` (step, prompt and parse; resets not counted), `step_us`, `reset_ms` (mean over
    different instances), `restart_ms`, `steps`, `episodes`, `peak_rss_mib` of this process, and
    `peak_tree_mib` of it with all that it started (see `memory`; looked at now and then).
    """
    if seconds is None:
        seconds = 3.0 if spec(name, options).light else 20.0
    settings = dict(options)
    known = validate_options(name, settings)
    settings = dict(listing_actions(name, settings))
    limit = getattr(known, "max_turns", 50)
    rng = random.Random(0)
    boards = instances(name, settings, "train")
    sample = getattr(importlib.import_module(spec(name).module), "sample_action", None)
    env = make(name, settings)
    spent = {"reset": 0.0, "restart": 0.0, "step": 0.0}
    done = episodes = 0
    tree, looked = 0.0, 0.0
    started = clock()
    try:
        while done < steps if steps is not None else clock() - started < seconds or done == 0:
            at = clock()
            board = boards[rng.randrange(len(boards))]
            style = env.style.of(domain_of(board))
            env.reset(options={"instance": board})
            spent["reset"] += clock() - at
            at = clock()
            observation, _ = env.restart()
            spent["restart"] += clock() - at
            episodes += 1
            for turn in range(limit):
                actions = env.admissible_actions()
                if actions:
                    answer = rng.choice(actions)
                elif sample is not None:
                    answer = sample(rng, observation)
                else:
                    raise EnvSetupError(f"{name} names no actions, so it can't be measured so")
                at = clock()
                style.act_prompt(View(observation, episode=turn % 3, episodes=3))
                style.parse_action(answer)
                observation, _, over, cut, _ = env.step(answer)
                spent["step"] += clock() - at
                done += 1
                if over or cut or done == steps:
                    break
            if clock() - looked > _LOOK_S:
                tree, looked = max(tree, tree_mib()), clock()
    finally:
        env.close()
    return {
        "steps_per_s": done / spent["step"],
        "step_us": spent["step"] / done * 1e6,
        "reset_ms": spent["reset"] / episodes * 1e3,
        "restart_ms": spent["restart"] / episodes * 1e3,
        "steps": float(done),
        "episodes": float(episodes),
        "peak_rss_mib": peak_mib(),
        "peak_tree_mib": tree,
    }
