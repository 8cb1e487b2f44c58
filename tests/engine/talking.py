"""A tiny chat model whose every word is known beforehand: each token is followed by one other.

The residual stream is the present token alone (attention and MLP write nothing), and the head's row of the
next token points at it: a chain of words, sampled by a real engine.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch

ASSISTANT, END = "<|assistant|>", "<|end|>"
WIDTH = 320


def make_talker(folder: Path, said: str, *, loops: bool = False, context: int = 8192) -> Path:
    """Save a model that answers `said` to everything, and then stops; or begins again, for ever."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [w if i == 0 else " " + w for i, w in enumerate(said.split(" "))]
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END)
    tokenizer.add_special_tokens({"additional_special_tokens": [ASSISTANT]})
    tokenizer.add_tokens(words)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        f"{{% if add_generation_prompt %}}{ASSISTANT}{{% endif %}}"
    )
    tokenizer.save_pretrained(folder)

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=10,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        eos_token_id=tokenizer.convert_tokens_to_ids(END),
    )
    model = LlamaForCausalLM(config).float().eval()
    chain = [ASSISTANT, *words, words[0] if loops else END]
    with torch.no_grad():
        layer = model.model.layers[0]
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.copy_(torch.eye(len(tokenizer), WIDTH))
        model.lm_head.weight.zero_()
        for before, after in pairwise(chain):
            one, next_one = (tokenizer.convert_tokens_to_ids(word) for word in (before, after))
            model.lm_head.weight[next_one, one] = 10.0
    model.save_pretrained(folder)
    return folder
