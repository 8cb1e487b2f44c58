"""The tiny model: a Llama of about 300,000 parameters with a tokenizer of its own, warmed up by imitation.

Which tokenizer and which demonstrations depends on the environment's prompts:

- *words* (raw text, a game's compact format): a token for each word of the format's vocabulary. Most answers
  are one token and aren't followed by <eos>: serve with `max_tokens=1`. The warm-up imitates the game's own
  demonstrator, which plays poorly and sometimes uses its memory (`envs.warmstart`). A memory policy imitates
  random hints, or none.
- *text* (chat messages, all else): `tiny_text`.

Everything is drawn from `warmup.seed`: the same settings give the same weights on the same machine.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.app.models import tiny_text
from agentmem.failures import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from agentmem.app.models.resolve import Progress, Surroundings
    from agentmem.config import PolicyConfig
    from envs.warmstart import Memory, Row, WarmStart

VERSION = 3
"""Of everything that shapes the weights (tokenizers, demonstrations, training). Raise it with any change."""
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
POSITIONS = 512
"""Least length of the context."""
SHAPE: Mapping[str, int] = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 192,
}
#: Messages one after another: enough to serve, and a conversation's prompts extend each other.
WORDS_TEMPLATE = "{{ bos_token }}{% for m in messages %} {{ m['content'] }}{% endfor %} "


def recipe(policy: PolicyConfig, around: Surroundings) -> dict[str, Any]:
    """All that the made model depends on."""
    from envs import registry

    return {
        "version": VERSION,
        "env": around.env,
        "options": asdict(registry.validate_options(around.env, around.options)),
        "memory": _demonstrated_memory(policy, around),
        "episodes": around.episodes,
        "max_turns": around.max_turns,
        "positions": positions(policy),
        "warmup": policy.warmup.model_dump(mode="json"),
        **({"advises": True} if around.advises else {}),
    }


def make(policy: PolicyConfig, around: Surroundings, into: Path, report: Progress) -> None:
    """Write tokenizer and warmed-up model into an empty directory."""
    from agentmem.app.models.resolve import write
    from envs import registry
    from envs.warmstart import Play

    warmup = policy.warmup
    start = registry.warm_start(around.env, around.options)
    if start is not None and around.advises and start.hints is not None:
        tokenizer, pairs = advising(start, warmup.seed, warmup.steps * warmup.batch_rows)
        steps, batch_rows = warmup.steps, warmup.batch_rows
    elif start is not None and start.demonstrations is not None:
        tokenizer = word_tokenizer(start.vocabulary)
        play = Play(_demonstrated_memory(policy, around), around.episodes, around.max_turns)
        pairs = list(islice(start.demonstrations(warmup.seed, play), warmup.steps * warmup.batch_rows))
        steps, batch_rows = warmup.steps, warmup.batch_rows
    else:
        steps = min(warmup.steps, tiny_text.MOST_STEPS)
        batch_rows = min(warmup.batch_rows, tiny_text.MOST_ROWS)
        demos = tiny_text.demonstrations(around, warmup.seed, steps * batch_rows)
        tokenizer = tiny_text.tokenizer(demos, SPECIALS)
        pairs = tiny_text.rendered(demos, tokenizer)
    model = new_llama(len(tokenizer), positions(policy), warmup.seed)
    rows = encoded(tokenizer, pairs, positions(policy))
    if rows:
        from learner.sft import SftConfig, train

        train(
            model,
            rows,
            SftConfig(steps=steps, batch_rows=batch_rows, lr=warmup.lr, seed=warmup.seed),
            lambda p: report("warming up the tiny model", p.step, p.steps),
        )
    write(model, tokenizer, into)


def advising(start: WarmStart, seed: int, rows: int) -> tuple[PreTrainedTokenizerFast, list[Row]]:
    """A memory policy's tokenizer, which has the decisions, and rows: a hint every other time, at random."""
    from tokenizers import AddedToken

    from agentmem.chat.decision import Decision

    assert start.hints is not None
    tokenizer = word_tokenizer(start.vocabulary)
    decisions = [AddedToken(d.token, special=True, normalized=False) for d in Decision]
    tokenizer.add_tokens(decisions)
    rng = random.Random(seed)
    pairs = [
        (prompt, f"{Decision.GENERATE.token} {hint}" if rng.random() < 0.5 else Decision.ABSTAIN.token)
        for prompt, hint in islice(start.hints(seed), rows)
    ]
    return tokenizer, pairs


def word_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """A token for each word between blanks; <bos> in front, <unk> for any other word."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing

    vocabulary = {word: i for i, word in enumerate((*SPECIALS, *words))}
    if len(vocabulary) != len(SPECIALS) + len(words):
        raise ConfigError("a word of the tiny model's vocabulary is given twice or is a special token's")
    backend = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = WhitespaceSplit()
    backend.post_processor = TemplateProcessing(
        single="<bos> $A", special_tokens=[("<bos>", vocabulary["<bos>"])]
    )
    return fast_tokenizer(backend, WORDS_TEMPLATE)


def fast_tokenizer(backend: Any, template: str) -> PreTrainedTokenizerFast:
    """The Hugging Face face of a tokenizer with our special tokens."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        chat_template=template,
        clean_up_tokenization_spaces=False,
    )


def new_llama(vocabulary: int, positions: int, seed: int) -> PreTrainedModel:
    """Fresh weights, drawn from `seed` alone."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    ids = {f"{name}_token_id": i for i, name in enumerate(("pad", "bos", "eos"))}
    config = LlamaConfig(
        vocab_size=vocabulary,
        max_position_embeddings=positions,
        tie_word_embeddings=False,
        dtype="float32",
        agentmem_tiny=True,  # so that recipes know it again, also when it has been trained
        **SHAPE,
        **ids,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)


def encoded(
    tokenizer: PreTrainedTokenizerFast, pairs: Sequence[tuple[str, str]], longest: int
) -> list[tuple[list[int], list[int]]]:
    """Prompt and response ids of each pair that fits. Prompts get <bos> if they don't write it themselves."""
    if not pairs:
        return []
    unique = list(dict.fromkeys(text for pair in pairs for text in pair))
    ids = dict(zip(unique, tokenizer(unique, add_special_tokens=False)["input_ids"], strict=True))
    bos = [tokenizer.bos_token_id]
    rows = []
    for prompt, response in pairs:
        before, after = ids[prompt], ids[response]
        row = (before if before[:1] == bos else bos + before, after)
        if len(row[0]) + len(row[1]) <= longest:
            rows.append(row)
    return rows


def _demonstrated_memory(policy: PolicyConfig, around: Surroundings) -> Memory:
    if policy.warmup.notes:
        return "both" if around.memory == "both" else "reflection"
    return "history"


def positions(policy: PolicyConfig) -> int:
    return max(POSITIONS, policy.context_length)
