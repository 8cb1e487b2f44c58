"""Whether prompts are chat messages, or raw text for small word-level models: one model reads one kind."""

from __future__ import annotations

from envs.base import PromptStyle, View
from envs.options import EnvSetupError


def acts_in_messages(style: PromptStyle) -> bool:
    """Of the prompts that ask for an action. Raises EnvSetupError where domains differ."""
    return _alike(
        {name: not isinstance(each.act_prompt(View("")), str) for name, each in style.each().items()},
        "actions",
    )


def advises_in_messages(style: PromptStyle) -> bool:
    """Of the prompts that ask for advice. Raises EnvSetupError where domains differ."""
    return _alike(
        {name: not isinstance(each.advise_prompt("", ""), str) for name, each in style.each().items()},
        "advice",
    )


def _alike(kinds: dict[str, bool], asked_for: str) -> bool:
    messages = [name for name, kind in kinds.items() if kind]
    if messages and len(messages) < len(kinds):
        raw = next(name for name, kind in kinds.items() if not kind)
        raise EnvSetupError(
            f"environment mixture: domain {messages[0]} asks for {asked_for} in chat messages and domain "
            f"{raw} in raw text for small models: one model needs one kind (the domains' options choose)"
        )
    return bool(messages)
