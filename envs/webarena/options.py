"""What can be set for WebArena."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envs.browser.options import BrowserOptions
from envs.options import require
from envs.webarena.sites import SITES

EVALUATORS = ("string_match", "url_match", "program_html")
TASKS = 812


@dataclass(frozen=True, slots=True)
class Options(BrowserOptions):
    """The split `eval` is WebArena-Lite's 165 tasks, `train` the other 647, less what is left out here."""

    max_turns: int = 30
    """Turns of an episode, as WebArena has them; for the trial loop."""
    sites: str = "all"
    """`all`, or names of sites with commas between them: the tasks that need no other ones."""
    task_ids: str = "all"
    """`all`, or ids with commas between them: only these tasks."""
    evaluators: str = "all"
    """`all`, or `string_match`, `url_match`, `program_html` with commas between them: the tasks that are
    scored by no other ones. Those of the first two hardly change anything on the sites."""
    fuzzy: Literal["exclude", "judge"] = "exclude"
    """The 118 tasks (32 of WebArena-Lite's) whose answers a language model must judge: left out, or judged
    by the endpoint below, once the agent has answered. Scoring by `verified` needs no judge."""
    judge_url: str = ""
    """Base address of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1. Empty: what
    `OPENAI_BASE_URL` names, or else OpenAI's. The key is `OPENAI_API_KEY` of the environment."""
    judge_model: str = "gpt-4-1106-preview"
    """The judge (default: WebArena's)."""
    judge_timeout_s: float = 60.0
    """How long the judge may take."""
    scoring: Literal["webarena", "verified"] = "webarena"
    """`webarena`: the benchmark's own tasks and evaluators, after every turn; `verified`: the tasks as
    webarena-verified words them, scored by the agent's answer and by what the browser sent until then."""
    evaluator_wait_s: float = 0.0
    """How long an evaluator waits for each page that it opens (WebArena's own: 3)."""
    homepage_hint: bool = False
    """Tell of the homepage with its list of sites and accounts, as WebArena's prompts do."""
    na_hint: bool = False
    """Tell that an impossible task is to be answered by "N/A", as some of WebArena's prompts do."""
    pre_observation_delay_s: float = 0.5
    """As BrowserGym's: large sites go on working after a click, and a turn is scored right after it."""

    def __post_init__(self) -> None:
        BrowserOptions.__post_init__(self)
        for key, known in (("sites", tuple(SITES)), ("evaluators", EVALUATORS)):
            for name in listed(getattr(self, key)) or ():
                require(name in known, key, name, f"all, or of {', '.join(known)}")
        for number in listed(self.task_ids) or ():
            holds = number.isascii() and number.isdigit() and int(number) < TASKS
            require(holds, "task_ids", number, f"all, or numbers from 0 to {TASKS - 1}")
        require(self.judge_timeout_s > 0, "judge_timeout_s", self.judge_timeout_s, "above 0")
        require(0 <= self.evaluator_wait_s <= 60, "evaluator_wait_s", self.evaluator_wait_s, "from 0 to 60")


def listed(value: str) -> tuple[str, ...] | None:
    """The names in an option; None if it is `all`."""
    return None if value == "all" else tuple(name.strip() for name in value.split(","))
