"""What the learner loads, and what it must not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.learner_group.support import save_model


def run(program: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


def test_the_driver_s_side_loads_neither_torch_nor_deepspeed_nor_the_actors() -> None:
    program = (
        "import sys, learner.group, learner.checkpoint, learner.rows, learner.batching.plan;"
        "heavy = {'torch', 'deepspeed', 'transformers', 'ray', 'vllm', 'actors', 'envs'};"
        "print(sorted(heavy & {m.partition('.')[0] for m in sys.modules}))"
    )
    assert run(program).stdout.strip() == "[]"


def test_starting_a_rank_compiles_nothing_and_says_nothing(tmp_path: Path) -> None:
    extensions = tmp_path / "extensions"
    extensions.mkdir()
    program = (
        "import sys; from learner.rank import LearnerRank; from learner.settings import RankSettings;"
        "from transformers.utils import logging; logging.disable_progress_bar();"
        "LearnerRank(RankSettings(policy='agent', model=sys.argv[1]))"
    )
    done = run(program, save_model(tmp_path / "model"), TORCH_EXTENSIONS_DIR=str(extensions))
    assert list(extensions.iterdir()) == []
    assert "DeepSpeed" not in done.stdout + done.stderr
    assert "accelerator" not in done.stdout + done.stderr
