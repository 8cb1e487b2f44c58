"""The chat messages of the Linux tasks, and how an answer is read.

An action is a bash script, or the word `finish`. Besides our own form in action tags the benchmark's is
understood: `Act: bash` with a fenced bash block, `Act: finish`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envs.base import EpisodeRecord, ParsedAction, Step, View
from envs.chat import ChatStyle, tagged
from envs.lab.shell.options import Options
from envs.lab.shown import shortened

FINISH = "finish"
_FENCE = re.compile(r"```(?:bash|sh)?[ \t]*\n(.*?)```", re.DOTALL)
_BASH = re.compile(r"Act:\s*bash\s*```bash\s*\n(.*?)```", re.DOTALL)
_FINISH = re.compile(r"Act:\s*finish\b")
_RULES = """\
You are root on a Linux machine without a network and get a task to do there by bash.

Each turn you do one of two things, inside <action> and </action>:
- run a bash script, of one or more lines: <action>mkdir -p /srv/data && ls -l /srv</action>
  You are shown its exit status and what it printed. Each script starts in / with a new shell: variables and \
the working directory don't last, files and processes do. Nothing can be typed in while it runs, and after \
{seconds:g} seconds it is stopped.
- finish: <action>finish</action>
  Then the machine is checked.

You have {rounds} turns at most; after the last one the machine is checked as it is. Think first as long as \
you need, then give exactly one action."""


@dataclass(frozen=True, slots=True)
class ShellStyle(ChatStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """What can be done, and the form of an answer."""
        return _RULES.format(seconds=self.options.command_seconds, rounds=self.options.max_rounds)

    def situation(self, observation: str) -> str:
        """As it is."""
        return observation

    def outcome(self, step: Step) -> str:
        """Says that an answer couldn't be read; all else can be seen."""
        return "Your last answer held no action in the asked form; nothing was run." if step.invalid else ""

    def parse_action(self, response: str, admissible: Sequence[str] | None = None) -> ParsedAction:
        """The script in the last action tag (without a code fence around it), or the benchmark's form."""
        text = tagged(response, "action")
        if text is None:
            text = _benchmarks_own(response.rpartition("</think>")[2])
        elif fenced := _FENCE.fullmatch(text):
            text = fenced[1].strip()
        return ParsedAction((text,)) if text else ParsedAction((), invalid=True)

    def summarise(self, episode: EpisodeRecord) -> str:
        """Each turn's script and what it gave."""
        after = [step.observation for step in episode.steps[1:]] + [episode.final_observation]
        lines = []
        for number, (step, seen) in enumerate(zip(episode.steps, after, strict=True), 1):
            did = "nothing that could be read" if step.invalid else shortened("; ".join(step.actions), 400)
            lines.append(f"Turn {number}: {did}\n{shortened(seen, 400)}")
        return "\n".join(lines)


def _benchmarks_own(response: str) -> str | None:
    script = _BASH.search(response)
    if script:
        return script[1].strip()
    return FINISH if _FINISH.search(response) else None
