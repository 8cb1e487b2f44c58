"""Mem-π's decision: the first token of every answer of the memory policy, one of two special tokens.

    answer = [GENERATE] hint <eos>    or    [ABSTAIN] <eos>

It is read from ids, never from text: `ChatCodec.decode` leaves special tokens out, so what it makes of an
answer is the hint alone. A tokenizer gets the tokens, and a model their rows, by `chat/decision_model.py`;
a model without them can't be a memory policy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.failures import AgentMemError, ModelError
from agentmem.vision.directory import language_config

if TYPE_CHECKING:
    from agentmem.chat.codec import ChatCodec


class Decision(StrEnum):
    """What an answer is."""

    GENERATE = "generate"
    """A hint follows."""
    ABSTAIN = "abstain"
    """The agent does without."""

    @property
    def token(self) -> str:
        """As the tokenizer writes it."""
        return f"[{self.value.upper()}]"


TOKENS = tuple(decision.token for decision in Decision)


@dataclass(frozen=True, slots=True)
class DecisionTokens:
    """The ids of a model's decision tokens."""

    generate: int
    abstain: int

    @classmethod
    def of(cls, path: str | Path) -> DecisionTokens:
        """Of a model's directory. Raises ModelError if its tokenizer or its model lacks one."""
        try:
            tokenizer = json.loads((Path(path) / "tokenizer.json").read_text(encoding="utf-8"))
            config = json.loads((Path(path) / "config.json").read_text(encoding="utf-8"))
            declared = language_config(config).get("vocab_size")
            added = {str(t["content"]): int(t["id"]) for t in tokenizer.get("added_tokens") or ()}
        except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
            raise ModelError(f"model {path}: its decision tokens can't be looked up ({error})") from None
        missing = [token for token in TOKENS if token not in added]
        if missing:
            raise ModelError(
                f"model {path}: its tokenizer lacks {' and '.join(missing)}, so it can't be a memory policy "
                "(agentmem.chat.decision_model.write_memory_model adds them)"
            )
        found = cls(added[Decision.GENERATE.token], added[Decision.ABSTAIN.token])
        if isinstance(declared, int) and declared <= max(found.generate, found.abstain):
            raise ModelError(
                f"model {path}: its tokenizer has {' and '.join(TOKENS)}, but the model has no rows for them "
                f"(vocab_size is {declared}, the ids are {found.generate} and {found.abstain})"
            )
        return found

    def id_of(self, decision: Decision) -> int:
        """The token that says so."""
        return self.generate if decision is Decision.GENERATE else self.abstain

    def split(self, response_ids: Sequence[int]) -> tuple[Decision, tuple[int, ...]]:
        """An answer's decision, and the ids behind it. Raises AgentMemError for an answer without one."""
        for decision in Decision:
            if response_ids and response_ids[0] == self.id_of(decision):
                return decision, tuple(response_ids[1:])
        first = f"begins with token {response_ids[0]}" if response_ids else "is empty"
        raise AgentMemError(
            f"an answer of the memory policy {first}: {' or '.join(TOKENS)} must come first "
            f"(tokens {self.generate} and {self.abstain})"
        )

    def shown(self, codec: ChatCodec, response_ids: Sequence[int]) -> str:
        """An answer as people read it, decision included."""
        decision, rest = self.split(response_ids)
        return f"{decision.token} {codec.decode(rest)}".rstrip()
