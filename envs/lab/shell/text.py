"""The chat messages of the Linux tasks, and how an answer is read.

An action is a bash script, or the word `finish`. Besides our own form in action tags the benchmark's is
understood: `Act: bash` with a fenced bash block, `Act: finish`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from envs.base import View
from envs.lab.shell.options import Options
from envs.lab.text import LabStyle

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
class ShellStyle(LabStyle):
    """See `envs.chat` for the layout of the messages."""

    options: Options

    @property
    def history_turns(self) -> int:
        """As the options say."""
        return self.options.history_turns

    def rules(self, view: View) -> str:
        """What can be done, and the form of an answer."""
        return _RULES.format(seconds=self.options.command_seconds, rounds=self.options.max_rounds)

    def unwrapped(self, text: str) -> str:
        """The script, without a code fence around it."""
        fenced = _FENCE.fullmatch(text)
        return fenced[1].strip() if fenced else text

    def benchmarks_own(self, answer: str) -> str | None:
        """A script, or `finish`."""
        script = _BASH.search(answer)
        if script:
            return script[1].strip()
        return FINISH if _FINISH.search(answer) else None
