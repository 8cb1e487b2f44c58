"""Prompts to ids and back: exactly what the tokenizer gives, one line where a model can't serve."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from agentmem.chat import ChatCodec
from agentmem.failures import ModelError

WORDS = ["Try", "1", "2", "now", "move:", "mines:", "????", "2???", "(1,1)", "(2,3)"]
STABLE = (
    "{% for m in messages %}<|{{ m.role }}|> {{ m.content }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|> {% endif %}"
)
DROPS_THINKING = STABLE.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")


@dataclass(frozen=True)
class Message:
    role: str
    content: str


def word_model(
    path: Path,
    *,
    template: str | None = None,
    vocab_size: int | None = None,
    words: Sequence[str] = WORDS,
) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    vocab = {w: i for i, w in enumerate(["<pad>", "<bos>", "<eos>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<pad>", "<bos>", "<eos>", "<unk>")])
    tokenizer.save(str(path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<bos>", "eos_token": "<eos>"}
    if template:
        config["chat_template"] = template
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    (path / "config.json").write_text(
        json.dumps({"model_type": "llama", "vocab_size": vocab_size or len(vocab)})
    )
    return path


def test_raw_text_is_encoded_as_it_is_behind_one_bos(tmp_path: Path) -> None:
    codec = ChatCodec(word_model(tmp_path))
    ids = codec.encode("Try 1 now ???? 2??? move:")
    assert ids[0] == codec.bos_token_id
    assert codec.encode("<bos> Try 1 now ???? 2??? move:") == ids
    assert codec.decode(ids) == "Try 1 now ???? 2??? move:"


def test_the_short_cut_for_words_gives_the_tokenizers_ids(tmp_path: Path) -> None:
    codec = ChatCodec(word_model(tmp_path))
    reference = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    pieces = [*WORDS, "unknown", "<eos>", "a<eos>b", "\x1c", "\u00a0", "\n", "é"]
    rng = random.Random(0)
    for _ in range(500):
        text = rng.choice([" ", "  ", ""]).join(rng.choices(pieces, k=rng.randint(0, 8)))
        expected = reference.encode(text, add_special_tokens=False).ids
        got = list(codec.encode(text))
        if not expected or expected[0] != codec.bos_token_id:
            assert got[0] == codec.bos_token_id
            got = got[1:]
        assert got == expected, repr(text)


def test_a_word_level_prompt_costs_microseconds(tmp_path: Path) -> None:
    codec = ChatCodec(word_model(tmp_path))
    rng = random.Random(0)
    prompts = [" ".join(rng.choices(WORDS, k=10)) for _ in range(20_000)]
    started = time.process_time()
    for prompt in prompts:
        codec.encode(prompt)
    assert (time.process_time() - started) / len(prompts) < 50e-6  # about 2 µs on a quiet core


def test_messages_go_through_the_template_with_its_generation_prompt(tmp_path: Path) -> None:
    codec = ChatCodec(word_model(tmp_path, template=STABLE))
    assert codec.render([Message("user", "Try 1")]) == "<|user|> Try 1<eos><|assistant|> "
    assert codec.encode([("user", "Try 1")]) == codec.encode([Message("user", "Try 1")])
    assert codec.encode([("user", "Try 1")])[0] != codec.bos_token_id


def test_responses_end_at_the_stop_tokens_of_model_and_tokenizer(tmp_path: Path) -> None:
    word_model(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 7]}))
    assert ChatCodec(tmp_path).stop_token_ids == (2, 7)


def test_a_stable_template_is_servable_and_one_that_drops_thinking_forks_and_says_so(tmp_path: Path) -> None:
    stable = ChatCodec(word_model(tmp_path / "a", template=STABLE)).check_servable(messages=True)
    assert stable.prefix_stable
    assert not stable.notes
    forked = ChatCodec(word_model(tmp_path / "b", template=DROPS_THINKING)).check_servable(messages=True)
    assert not forked.prefix_stable
    assert "rendered as a whole" in forked.notes[0]
    assert "sequence of its own" in forked.notes[0]


def test_a_template_whose_end_marker_stops_no_answer_is_servable_and_says_so(tmp_path: Path) -> None:
    codec = ChatCodec(word_model(tmp_path, template=STABLE.replace("<eos>", "<unk>")))
    servable = codec.check_servable(messages=True)
    assert servable.prefix_stable
    assert "doesn't close an answer with one of the stop tokens [2]" in servable.notes[0]


@pytest.mark.parametrize(
    ("template", "vocab_size", "messages", "line"),
    [
        (None, None, True, "no chat template"),
        (None, 5, False, "vocab_size is 5"),
        ("{{ nonsense() }}", None, True, "chat template fails"),
    ],
)
def test_a_model_that_cannot_serve_is_refused_in_one_line(
    tmp_path: Path, template: str | None, vocab_size: int | None, messages: bool, line: str
) -> None:
    codec = ChatCodec(word_model(tmp_path, template=template, vocab_size=vocab_size))
    with pytest.raises(ModelError, match=line) as caught:
        codec.check_servable(messages=messages)
    assert "\n" not in str(caught.value)


def test_a_directory_without_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        ChatCodec(tmp_path)


def test_the_codec_is_imported_without_heavy_packages() -> None:
    script = "import sys, agentmem.chat; print({'transformers', 'tokenizers', 'torch'} & set(sys.modules))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_template_options_reach_the_prompt(tmp_path: Path) -> None:
    switched = STABLE + "{% if enable_thinking is defined and not enable_thinking %}now{% endif %}"
    path = word_model(tmp_path, template=switched)
    plain, quiet = ChatCodec(path), ChatCodec(path, template_options={"enable_thinking": False})
    messages = [Message("user", "Try 1")]
    assert quiet.render(messages) == plain.render(messages) + "now"
    assert quiet.encode(messages) == (*plain.encode(messages), *ids_of(path, "now"))


def ids_of(path: Path, text: str) -> list[int]:
    ids: list[int] = Tokenizer.from_file(str(path / "tokenizer.json")).encode(text).ids
    return ids
