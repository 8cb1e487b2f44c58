"""Mem-π's decision tokens: added, saved, read from ids, kept out of text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agentmem.app.models.resolve import write
from agentmem.app.models.tiny import SPECIALS, new_llama, word_tokenizer
from agentmem.chat import ChatCodec, Decision, DecisionTokens
from agentmem.chat.decision_model import add_decision_tokens, write_memory_model
from agentmem.failures import AgentMemError, ModelError

WORDS = ("look", "behind", "the", "door", "first")
Make = Callable[..., Path]


def bpe_tokenizer() -> Any:
    """Bytes, like the tokenizers of language models."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    from agentmem.app.models.tiny import WORDS_TEMPLATE, fast_tokenizer

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(BPE({piece: i for i, piece in enumerate((*SPECIALS, *alphabet))}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return fast_tokenizer(backend, WORDS_TEMPLATE)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A small model's directory. `spare`: rows that no token of its tokenizer has yet."""

    def build(*, spare: int = 0, tied: bool = False, words: bool = True) -> Path:
        tokenizer = word_tokenizer(WORDS) if words else bpe_tokenizer()
        model = new_llama(len(tokenizer) + spare, 128, 0)
        if tied:
            model.config.tie_word_embeddings = True
            model.tie_weights()
        path = tmp_path / f"source-{spare}-{tied}-{words}"
        path.mkdir()
        write(model, tokenizer, path)
        return path

    return build


def rows_of(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Input embedding and head of a model on disk."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return model.get_input_embeddings().weight.detach(), model.get_output_embeddings().weight.detach()


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
@pytest.mark.parametrize("spare", [0, 1, 7])
def test_a_model_that_got_the_tokens_has_them_when_it_is_loaded_again(
    make: Make, tmp_path: Path, spare: int, tied: bool
) -> None:
    source, into = make(spare=spare, tied=tied), tmp_path / "memory"
    tokens = write_memory_model(source, into)
    assert DecisionTokens.of(into) == tokens
    before = len(SPECIALS) + len(WORDS)
    assert sorted((tokens.generate, tokens.abstain)) == [before, before + 1]
    old, new = rows_of(source), rows_of(into)
    for had, has in zip(old, new, strict=True):
        assert has.shape[0] == before + max(spare, 2)
        assert torch.equal(has[:before], had[:before])
        mean, spread = had[:before].mean(0), had[:before].std(0)
        for row in has[[tokens.generate, tokens.abstain]]:
            assert ((row - mean).abs() < spread).all()
        assert not torch.equal(has[tokens.generate], has[tokens.abstain])
    assert torch.equal(new[0], new[1]) == tied
    ChatCodec(into).check_servable(messages=True)


def test_neither_decision_is_favoured_at_first(make: Make, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    tokens = write_memory_model(make(), tmp_path / "memory")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "memory", dtype=torch.float32)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[1, 5, 6, 7]])).logits[0, -1]
    assert abs(float(logits[tokens.generate] - logits[tokens.abstain])) < 0.5


def test_the_same_seed_gives_the_same_rows(make: Make, tmp_path: Path) -> None:
    source = make()
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_memory_model(source, tmp_path / name, seed=seed)
    first, same, other = (rows_of(tmp_path / name)[0] for name in "abc")
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_adding_them_again_changes_nothing(make: Make, tmp_path: Path) -> None:
    tokens = write_memory_model(make(), tmp_path / "once")
    assert write_memory_model(tmp_path / "once", tmp_path / "twice", seed=5) == tokens
    for once, twice in zip(rows_of(tmp_path / "once"), rows_of(tmp_path / "twice"), strict=True):
        assert torch.equal(once, twice)


def test_a_head_with_a_bias_gets_one_for_each_decision() -> None:
    from transformers import GPTJConfig, GPTJForCausalLM

    tokenizer = word_tokenizer(WORDS)
    config = GPTJConfig(
        vocab_size=len(tokenizer), n_embd=32, n_layer=1, n_head=2, n_positions=32, rotary_dim=8
    )
    model = GPTJForCausalLM(config)
    with torch.no_grad():
        model.lm_head.bias.fill_(3.0)
    tokens = add_decision_tokens(model, tokenizer)
    assert model.lm_head.bias[[tokens.generate, tokens.abstain]].tolist() == pytest.approx([3.0, 3.0])


@pytest.mark.parametrize("words", [True, False], ids=["words", "bytes"])
def test_the_decision_is_read_from_ids_and_the_text_is_the_hint_alone(
    make: Make, tmp_path: Path, words: bool
) -> None:
    tokens = write_memory_model(make(words=words), tmp_path / "memory")
    codec = ChatCodec(tmp_path / "memory")
    hint = codec.plain("look behind the door first")
    assert codec.bos_token_id not in hint
    (eos,) = codec.stop_token_ids
    answer = (tokens.generate, *hint, eos)
    assert tokens.split(answer) == (Decision.GENERATE, (*hint, eos))
    assert codec.decode(answer) == "look behind the door first"
    assert tokens.shown(codec, answer) == "[GENERATE] look behind the door first"
    assert tokens.split((tokens.abstain, eos)) == (Decision.ABSTAIN, (eos,))
    assert tokens.shown(codec, (tokens.abstain, eos)) == "[ABSTAIN]"
    assert codec.encode("[GENERATE]")[-1] == tokens.generate


@pytest.mark.parametrize("answer", [(), (5, 6)])
def test_an_answer_without_a_decision_is_refused(answer: tuple[int, ...]) -> None:
    with pytest.raises(AgentMemError, match=r"\[GENERATE\] or \[ABSTAIN\] must come first"):
        DecisionTokens(10, 11).split(answer)


def test_a_model_that_lacks_them_is_an_error_that_names_what_is_missing(make: Make, tmp_path: Path) -> None:
    source = make()
    with pytest.raises(ModelError, match=r"lacks \[GENERATE\] and \[ABSTAIN\]") as caught:
        DecisionTokens.of(source)
    assert str(source) in str(caught.value)
    write_memory_model(source, tmp_path / "memory")
    config = tmp_path / "memory" / "config.json"
    tree = json.loads(config.read_text())
    config.write_text(json.dumps({**tree, "vocab_size": tree["vocab_size"] - 2}))
    with pytest.raises(ModelError, match="no rows for them"):
        DecisionTokens.of(tmp_path / "memory")
    with pytest.raises(ModelError, match="can't be looked up"):
        DecisionTokens.of(tmp_path / "nowhere")
