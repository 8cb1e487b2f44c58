"""From a prompt to token ids, and from sampled ids to text, by the tokenizer directory of a model.

Contract:
- `encode(str)` gives <bos> (where the tokenizer has one) and the text's ids as they are: no template, no
  other special token. `encode(messages)` renders the chat template with its generation prompt; the template
  writes its own <bos>.
- `extend(messages, after)` is `encode(messages)` that keeps the ids of an earlier prompt and its response
  where the messages go on from them (see `exchange`), and only where the template is prefix-stable.
- `decode` is for people and environments only. Nothing that was decoded is ever encoded again for training.
- All are pure, so short prompts are cached (`CACHED_PROMPTS`, `CACHED_CHARS` bound the memory).
- `check_servable` says in one line why a model can't serve, before anything starts.

Heavy packages: `tokenizers` is imported at construction, `transformers` when the first messages are encoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol

from agentmem.chat.exchange import Exchange, Messages, Rendered
from agentmem.chat.words import word_table
from agentmem.failures import ModelError
from agentmem.vision.directory import language_config

CACHED_PROMPTS = 16_384
#: Longer prompts are rarely asked twice; caching them would cost gigabytes.
CACHED_CHARS = 512
CACHED_RESPONSE_TOKENS = 8


class MessageLike(Protocol):
    """A chat message."""

    @property
    def role(self) -> str: ...
    @property
    def content(self) -> str: ...


PromptLike = str | Sequence[MessageLike] | Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Servable:
    """A model that can serve, with what its user should know."""

    prefix_stable: bool
    """Whether a conversation's later prompt begins with its earlier prompt and response. If not, every prompt
    is rendered as a whole, and the learner trains each branch as a sequence of its own (a fork), each sampled
    token once."""
    notes: tuple[str, ...] = ()


class ChatCodec:
    """Codec of one model directory (tokenizer.json, tokenizer_config.json, config.json).

    `template_options` go to the chat template (`enable_thinking: False` for Qwen3).
    """

    def __init__(self, path: str | Path, *, template_options: Mapping[str, Any] | None = None) -> None:
        from tokenizers import Tokenizer

        self.path = Path(path)
        file = self.path / "tokenizer.json"
        if not file.is_file():
            raise ModelError(f"model {self.path}: no tokenizer.json (a fast tokenizer is needed)")
        self._backend = Tokenizer.from_file(str(file))
        # A length limit or padding written into the file would change ids silently.
        self._backend.no_truncation()
        self._backend.no_padding()
        self._config = _read_json(self.path / "tokenizer_config.json")
        self._template_options = dict(template_options or {})
        self.bos_token_id = self._special_id("bos_token")
        self._words = word_table(json.loads(file.read_text(encoding="utf-8")))
        self._encode_cached: Callable[[str], tuple[int, ...]] = lru_cache(CACHED_PROMPTS)(self._encode_text)
        self._decode_cached: Callable[[tuple[int, ...]], str] = lru_cache(CACHED_PROMPTS)(self._decode_ids)

    def encode(self, prompt: PromptLike) -> tuple[int, ...]:
        """Prompt -> ids."""
        if isinstance(prompt, str):
            if len(prompt) <= CACHED_CHARS:
                return self._encode_cached(prompt)
            return self._encode_text(prompt)
        return self._tokens(self.render(prompt))

    def plain(self, text: str) -> tuple[int, ...]:
        """The ids of a text as it is, without <bos>: what an answer is made of."""
        ids = self._words.encode(text) if self._words else None
        return tuple(ids) if ids is not None else self._tokens(text)

    def extend(
        self, messages: Sequence[MessageLike] | Sequence[tuple[str, str]], after: Exchange | None
    ) -> Rendered:
        """Messages -> text and ids, which begin with those of `after` where the messages go on from it."""
        pairs = _pairs(messages)
        text = self.render(pairs)
        if after is None or not self.prefix_stable or (rest := after.rest(pairs, text)) is None:
            return Rendered(pairs, text, self._tokens(text))
        response = after.response_ids
        return Rendered(pairs, text, (*after.prompt.ids, *response, *self._after(response, rest)))

    def decode(self, ids: Sequence[int]) -> str:
        """Sampled ids -> text without special tokens."""
        if len(ids) <= CACHED_RESPONSE_TOKENS:
            return self._decode_cached(tuple(ids))
        return self._decode_ids(ids)

    def render(self, messages: Sequence[MessageLike] | Sequence[tuple[str, str]]) -> str:
        """Messages -> the text that the model sees, up to where its answer begins."""
        dicts = [{"role": role, "content": content} for role, content in _pairs(messages)]
        text: str = self._templated.apply_chat_template(
            dicts, tokenize=False, add_generation_prompt=True, **self._template_options
        )
        return text

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest id that the tokenizer can produce."""
        return max(self._backend.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a response: those of generation_config.json and the tokenizer's <eos>."""
        named = _read_json(self.path / "generation_config.json").get("eos_token_id")
        ids = set(named if isinstance(named, list) else [named])
        ids.add(self._special_id("eos_token"))
        return tuple(sorted(i for i in ids if isinstance(i, int)))

    @cached_property
    def end_token_id(self) -> int:
        """The token that an answer is to end with: the one the chat template closes it by, else <eos>."""
        closing = self._tokens(self._probe) if self.has_chat_template and self._probe is not None else ()
        named = next((i for i in closing if i in self.stop_token_ids), self._special_id("eos_token"))
        if named is None:
            raise ModelError(f"model {self.path}: its tokenizer names no <eos>, so no answer can end")
        return named

    @cached_property
    def has_chat_template(self) -> bool:
        """Whether messages can be rendered."""
        return bool(self._config.get("chat_template")) or (self.path / "chat_template.jinja").is_file()

    def check_servable(self, *, messages: bool) -> Servable:
        """Raises ModelError if this model can't serve prompts (`messages`: chat messages, else raw text)."""
        declared = language_config(_read_json(self.path / "config.json")).get("vocab_size")
        if isinstance(declared, int) and declared < self.vocabulary_size:
            raise ModelError(
                f"model {self.path}: tokenizer has ids up to {self.vocabulary_size - 1}, "
                f"but the model's vocab_size is {declared}: they don't belong together"
            )
        if not messages:
            return Servable(prefix_stable=True)
        if not self.has_chat_template:
            raise ModelError(
                f"model {self.path}: no chat template, but the environment's prompts are chat messages "
                "(use an instruction-tuned model, or a format of raw text)"
            )
        if self._probe is None:
            note = (
                "its chat template rewrites earlier turns, so every prompt is rendered as a whole; "
                "each turn that no longer extends the one before is trained as a sequence of its own"
            )
        elif not any(self._closing(stop, self._tokens(self._probe)) for stop in self.stop_token_ids):
            note = (
                "its chat template doesn't close an answer with one of the stop tokens "
                f"{list(self.stop_token_ids)}, so answers may end at max_tokens only"
            )
        else:
            return Servable(prefix_stable=True)
        return Servable(prefix_stable=self.prefix_stable, notes=(f"model {self.path}: {note}",))

    @property
    def prefix_stable(self) -> bool:
        """See Servable. Raises ModelError if the template fails."""
        return self._probe is not None

    @cached_property
    def _probe(self) -> str | None:
        """What the template puts behind an answer when another message follows; None if it changes what stood
        before."""
        # The answer has the part that templates are known to drop from earlier turns.
        answer = "<think>\nfirst\n</think>\n\nsecond"
        before: list[tuple[str, str]] = [("user", "question")]
        after = [*before, ("assistant", answer), ("user", "another")]
        try:
            earlier, later = self.render(before) + answer, self.render(after)
        except Exception as error:  # jinja's errors have no common base with the tokenizer's
            raise ModelError(f"model {self.path}: its chat template fails: {error}") from error
        return later[len(earlier) :] if later.startswith(earlier) else None

    def _after(self, response_ids: tuple[int, ...], rest: str) -> tuple[int, ...]:
        """The ids of `rest`, less the end marker if the response has ended with it."""
        # Tokenised with the marker: a text that begins elsewhere than behind it can get other ids.
        ids = self._tokens(rest)
        if response_ids and response_ids[-1] in self.stop_token_ids:
            return ids[self._closing(response_ids[-1], ids) :]
        return ids

    def _closing(self, stop: int, ids: tuple[int, ...]) -> int:
        """How many of these ids close an answer by this stop token: up to it, if only blanks come before."""
        if stop not in ids:
            return 0
        at = ids.index(stop)
        blank: str = self._backend.decode(list(ids[:at]), skip_special_tokens=False)
        return 0 if blank.strip() else at + 1

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self._backend.encode(text, add_special_tokens=False).ids)

    @cached_property
    def _templated(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(str(self.path), local_files_only=True)

    def _encode_text(self, text: str) -> tuple[int, ...]:
        ids = self.plain(text)
        if self.bos_token_id is None or ids[:1] == (self.bos_token_id,):
            return ids
        return (self.bos_token_id, *ids)

    def _decode_ids(self, ids: Sequence[int]) -> str:
        text: str = self._backend.decode(list(ids), skip_special_tokens=True)
        return text

    def _special_id(self, name: str) -> int | None:
        token = self._config.get(name)
        if isinstance(token, dict):
            token = token.get("content")
        found: int | None = self._backend.token_to_id(token) if isinstance(token, str) else None
        return found


def _pairs(messages: Sequence[MessageLike] | Sequence[tuple[str, str]]) -> Messages:
    return tuple(m if isinstance(m, tuple) else (m.role, m.content) for m in messages)


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    content = json.loads(file.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}
