from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentmem.app.models import tiny
from agentmem.app.models.resolve import resolve, resolve_for
from agentmem.chat import ChatCodec
from agentmem.config import PolicyConfig, RunConfig, load_config
from envs import registry
from envs.base import View
from envs.minesweeper.vocabulary import words
from tests.models.play import play

FEW = ["policies.agent.warmup.steps=8", "policies.agent.warmup.batch_rows=16"]


def few_steps(recipe: str, *more: str) -> RunConfig:
    return load_config(recipe, [*FEW, *more])


def weights(path: Path) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(str(path)).state_dict()


def test_same_settings_give_the_same_weights_and_another_seed_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        monkeypatch.setenv("AGENTMEM_CACHE", str(tmp_path / folder))
        made.append(resolve_for(few_steps("lamer-minesweeper", f"policies.agent.warmup.seed={seed}")))
    first, again, other = map(weights, made)
    assert made[0].name == made[1].name != made[2].name
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], other["lm_head.weight"])


def test_has_the_documented_shape(tiny_model: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(str(tiny_model))
    assert 300_000 < sum(p.numel() for p in model.parameters()) < 320_000
    config = model.config
    assert (config.head_dim, config.max_position_embeddings, config.tie_word_embeddings) == (32, 512, False)
    assert model.dtype is torch.float32


def test_every_word_of_the_compact_format_is_one_token(tiny_model: Path) -> None:
    tokenizer, codec = AutoTokenizer.from_pretrained(str(tiny_model)), ChatCodec(tiny_model)
    for word in words(4, 3):
        ids = tokenizer(word)["input_ids"]
        assert len(ids) == 2
        assert ids[0] == tokenizer.bos_token_id
        assert codec.encode(word) == tuple(ids)
        assert codec.decode(ids[1:]) == word


def test_tokenizer_and_model_agree_on_every_id(tiny_model: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(str(tiny_model))
    assert ChatCodec(tiny_model).vocabulary_size == model.config.vocab_size
    config = model.generation_config
    assert (config.bos_token_id, config.eos_token_id) == (1, 2)


def test_a_prompt_is_answered_with_a_cell(tiny_model: Path) -> None:
    model, codec = AutoModelForCausalLM.from_pretrained(str(tiny_model)), ChatCodec(tiny_model)
    prompt = codec.encode("mines: (3,2) Try 2 now ???? 2??? ???? ???? move:")
    with torch.inference_mode():
        likely = model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    cells = [codec.encode(f"({r},{c})")[-1] for r in range(1, 5) for c in range(1, 5)]
    assert likely[cells].sum() > 0.5


def test_warm_start_plays_poorly(tiny_model: Path) -> None:
    assert play(tiny_model, tasks=64)[-1] < 0.45


def test_all_arms_of_an_experiment_share_one_warm_start() -> None:
    made = {resolve_for(few_steps(recipe)) for recipe in ("lamer-minesweeper", "gigpo-minesweeper")}
    assert len(made) == 1


def test_a_recipe_with_notes_learns_to_write_them() -> None:
    config = load_config(
        "lamer-minesweeper-reflect",
        ["policies.agent.warmup.steps=60", "policies.agent.warmup.batch_rows=64"],
    )
    path = resolve_for(config)
    assert path != resolve_for(few_steps("lamer-minesweeper"))
    model, codec = AutoModelForCausalLM.from_pretrained(str(path)), ChatCodec(path)
    prompt = codec.encode("Try 1 lost ???? 2*?? ???? ???? Reflection:")
    with torch.inference_mode():
        answer = codec.decode([int(model(torch.tensor([prompt])).logits[0, -1].argmax())])
    assert not registry.style("minesweeper", config.env.options).parse_reflection(answer).invalid


def test_larger_boards_have_their_own_vocabulary(tmp_path: Path) -> None:
    policy = PolicyConfig.model_validate(
        {"model": "tiny", "warmup": {"steps": 1, "batch_rows": 8}, "context_length": 600}
    )
    path = resolve(policy, "minesweeper", {"size": 5, "mines": 4, "format": "compact"}, tmp_path)
    model = AutoModelForCausalLM.from_pretrained(str(path))
    assert model.config.vocab_size == len(tiny.SPECIALS) + len(words(5, 4))
    assert model.config.max_position_embeddings == 600


@pytest.mark.parametrize(
    ("env", "options"), [("sokoban", {}), ("minesweeper", {"size": 4, "admissible": True})]
)
def test_text_environments_get_a_tokenizer_for_any_text(
    tmp_path: Path, env: str, options: dict[str, object]
) -> None:
    policy = PolicyConfig.model_validate({"model": "tiny", "warmup": {"steps": 2, "batch_rows": 2}})
    path = resolve(policy, env, options, tmp_path)
    codec, style = ChatCodec(path), registry.style(env, options)
    text = "Zwölf Boxkämpfer √ 漢字 <action>up</action>\n"
    assert codec.decode(codec.encode(text)[1:]) == text
    assert codec.check_servable(messages=True).prefix_stable
    made = registry.make(env, options)
    observation, _ = made.reset(options={"instance": registry.instances(env, options, "train")[0]})
    ids = codec.encode(style.act_prompt(View(observation)))
    assert ids[0] == codec.bos_token_id
    assert len(ids) < 600
    assert 2 in codec.stop_token_ids


def test_the_command_prints_the_directory_alone(tmp_path: Path) -> None:
    settings = [word for assignment in FEW for word in ("--set", assignment)]
    done = subprocess.run(
        [sys.executable, "-m", "agentmem", "model", "tiny", *settings],
        env={**os.environ, "AGENTMEM_CACHE": str(tmp_path)},
        text=True,
        capture_output=True,
        timeout=120,
        check=True,
    )
    (made,) = tmp_path.glob("models/tiny-*")
    assert done.stdout == f"{made}\n"


def test_another_game_brings_its_own_words(tmp_path: Path) -> None:
    policy = PolicyConfig.model_validate({"model": "tiny", "warmup": {"steps": 1, "batch_rows": 8}})
    start = registry.warm_start("scout", {"format": "compact"})
    assert start is not None
    path = resolve(policy, "scout", {"format": "compact"}, tmp_path)
    codec = ChatCodec(path)
    for word in start.vocabulary:
        assert codec.decode(codec.encode(word)[1:]) == word
    assert codec.vocabulary_size == len(tiny.SPECIALS) + len(start.vocabulary)
