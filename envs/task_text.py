"""What a task asks, in words: for a memory that is consulted before play, and for the bank it learns from."""

from __future__ import annotations

from envs.base import PromptStyle, View
from envs.registry import spec


def task_text(name: str, style: PromptStyle, instruction: str, observation: str) -> str:
    """The instance's own text; else the environment's rules, as the style puts them before a first prompt;
    else (formats of raw text for small models have none) the environment's summary.

    `name`: of the environment; `observation`: the first of the instance.
    """
    if instruction.strip():
        return instruction
    prompt = style.act_prompt(View(observation))
    rules = [] if isinstance(prompt, str) else [m.content for m in prompt if m.role == "system"]
    return "\n\n".join(rules) or spec(name).summary
