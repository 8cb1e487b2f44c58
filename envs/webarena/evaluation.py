"""WebArena's own evaluators, without their sleep, and with a judge of one's choice.

libwebarena's evaluators wait 3 s for each page they open and ask a fixed model of OpenAI's. Both are names in
its modules, which are bound anew before each evaluation. Importing BrowserGym's WebArena needs NLTK's model
for sentences, which it would fetch from the network; without it, a model without any exceptions takes its
place: the evaluators only want the words of an answer.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from envs.data import made_once
from envs.webarena.judge import Judge

_PARTS = ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab")


def have_sentences() -> None:
    """See to it that NLTK finds a model for sentences. An installed one is left in its place."""
    import nltk

    try:
        nltk.data.find("tokenizers/punkt_tab")
    except LookupError:

        def make(directory: Path) -> None:
            english = directory / "tokenizers" / "punkt_tab" / "english"
            english.mkdir(parents=True)
            for part in _PARTS:
                (english / part).touch()

        nltk.data.path.append(str(made_once("punkt", Path(nltk.__file__), make)))


class Evaluation:
    """In place of a task's evaluator: called by BrowserGym's task as that would be."""

    def __init__(self, evaluator: Any, *, judge: Judge | None, judged: bool, wait_s: float) -> None:
        self._evaluator, self._judge, self._judged, self._wait_s = evaluator, judge, judged, wait_s

    def __call__(self, trajectory: list[Any], config_file: str, page: Any, client: Any) -> float:
        """The score. A judged task has none before the agent has answered."""
        from webarena.browser_env.actions import ActionTypes
        from webarena.evaluation_harness import evaluators, helper_functions

        if self._judged and trajectory[-1]["action_type"] != ActionTypes.STOP:
            return 0.0
        evaluators.time = SimpleNamespace(sleep=lambda _: time.sleep(self._wait_s))
        if self._judge is not None:
            helper_functions.generate_from_openai_chat_completion = self._judge
        return float(
            self._evaluator(trajectory=trajectory, config_file=config_file, page=page, client=client)
        )
