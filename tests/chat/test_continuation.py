"""A prompt that goes on from an answered one keeps its ids and the sampled ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from agentmem.chat import ChatCodec, Exchange, Rendered

PAD, EOS, OTHER_STOP = 0, 1, 2
SPECIALS = ("<pad>", "<eos>", "<stop>", "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TRIMS = TEMPLATE.replace("m.content", "m.content | trim")
DROPS_THINKING = TEMPLATE.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
START = (("system", "laugh"), ("user", "now"))


def codec_of(path: Path, template: str = TEMPLATE) -> ChatCodec:
    """Bytes, and `ha` and `haha` as tokens of their own: `ha` + `ha` decoded and encoded is one token."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: i for i, token in enumerate((*SPECIALS, *letters, "ha", "haha"))}
    tokenizer = Tokenizer(models.BPE(vocab, [("h", "a"), ("ha", "ha")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    tokenizer.save(str(path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "chat_template": template}
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [EOS, OTHER_STOP]}))
    return ChatCodec(path)


def text_of(codec: ChatCodec, ids: tuple[int, ...]) -> str:
    return str(Tokenizer.from_file(str(codec.path / "tokenizer.json")).decode(list(ids), False))


def said(codec: ChatCodec, prompt: Rendered, *pieces: str, stop: int | None = None) -> Exchange:
    """An answer sampled as these pieces, a token each."""
    ids = tuple(i for piece in pieces for i in codec.encode(piece))
    return Exchange(prompt, ids if stop is None else (*ids, stop), codec.decode(ids))


def next_messages(exchange: Exchange, user: str = "and now") -> tuple[tuple[str, str], ...]:
    return (*exchange.prompt.messages, ("assistant", exchange.answer), ("user", user))


def goes_on(prompt: Rendered, exchange: Exchange) -> bool:
    before = (*exchange.prompt.ids, *exchange.response_ids)
    return prompt.ids[: len(before)] == before


@pytest.mark.parametrize("stop", [EOS, None])
def test_three_turns_extend_each_other_by_the_sampled_ids_and_read_as_rendered(
    tmp_path: Path, stop: int | None
) -> None:
    codec = codec_of(tmp_path)
    prompt = codec.extend(START, None)
    assert prompt.ids == codec.encode(START)
    for _ in range(3):
        exchange = said(codec, prompt, "ha", "ha", "!", stop=stop)
        messages = next_messages(exchange)
        prompt = codec.extend(messages, exchange)
        assert goes_on(prompt, exchange)
        assert text_of(codec, prompt.ids) == codec.render(messages) == prompt.text
        assert prompt.ids != codec.encode(messages)


def test_a_response_that_ended_with_the_stop_token_is_not_given_it_twice(tmp_path: Path) -> None:
    codec = codec_of(tmp_path)
    exchange = said(codec, codec.extend(START, None), "ha", stop=EOS)
    prompt = codec.extend(next_messages(exchange), exchange)
    assert prompt.ids.count(EOS) == len(START) + 2


def test_a_response_that_was_cut_is_given_the_end_marker(tmp_path: Path) -> None:
    codec = codec_of(tmp_path)
    exchange = said(codec, codec.extend(START, None), "ha", "h")
    prompt = codec.extend(next_messages(exchange), exchange)
    assert prompt.ids[len(exchange.prompt.ids) + 2] == EOS


def test_a_response_that_ended_with_another_stop_token_keeps_it_and_is_given_the_end_marker(
    tmp_path: Path,
) -> None:
    codec = codec_of(tmp_path)
    exchange = said(codec, codec.extend(START, None), "ha", stop=OTHER_STOP)
    prompt = codec.extend(next_messages(exchange), exchange)
    assert goes_on(prompt, exchange)
    assert prompt.ids[len(exchange.prompt.ids) + 1 :][:2] == (OTHER_STOP, EOS)


def test_special_tokens_and_half_a_letter_in_an_answer_stay_as_sampled(tmp_path: Path) -> None:
    codec = codec_of(tmp_path)
    first = codec.extend(START, None)
    response = (PAD, codec.encode("é")[0], *codec.encode("ha"), PAD)
    exchange = Exchange(first, response, codec.decode(response))
    assert goes_on(codec.extend(next_messages(exchange), exchange), exchange)


def test_an_answer_that_the_template_trims_is_continued_as_it_was_sampled(tmp_path: Path) -> None:
    codec = codec_of(tmp_path, TRIMS)
    exchange = said(codec, codec.extend(START, None), " ", "ha", "ha", "\n", stop=EOS)
    prompt = codec.extend(next_messages(exchange), exchange)
    assert goes_on(prompt, exchange)
    assert text_of(codec, prompt.ids).endswith(" haha\n<eos>\n<|user|>and now<eos>\n<|assistant|>")


def test_a_template_that_drops_thinking_is_not_continued_and_says_so(tmp_path: Path) -> None:
    codec = codec_of(tmp_path, DROPS_THINKING)
    assert "rendered as a whole" in codec.check_servable(messages=True).notes[0]
    for pieces in (("<think>", "ha", "</think>", "ha"), ("ha", "ha")):
        exchange = said(codec, codec.extend(START, None), *pieces)
        messages = next_messages(exchange)
        assert codec.extend(messages, exchange).ids == codec.encode(messages)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m[2:],  # the history's limit: older messages fall out
        lambda m: (("system", "weep"), *m[1:]),
        lambda m: (*m[:2], ("assistant", "hahahaha"), m[3]),
        lambda m: m[:2],
    ],
    ids=["older messages are gone", "other rules", "a rewritten answer", "another question"],
)
def test_messages_that_do_not_go_on_from_the_answer_are_rendered_as_a_whole(
    tmp_path: Path, change: object
) -> None:
    codec = codec_of(tmp_path)
    exchange = said(codec, codec.extend(START, None), "ha", "ha")
    assert callable(change)
    messages = change(next_messages(exchange))
    assert codec.extend(messages, exchange).ids == codec.encode(messages)
