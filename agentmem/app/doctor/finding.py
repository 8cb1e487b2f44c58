"""What a check found, and how a list of that reads: for people, as JSON, as an exit status.

The exit status of a whole examination is that of the first check that failed, in the order of the checks;
each class of failure has its own (`agentmem.failures`). 0: nothing is wrong, though something may not have
been looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from agentmem.failures import AgentMemError
from envs.options import EnvSetupError


class Verdict(StrEnum):
    """Whether what was looked at is as it must be."""

    GOOD = "good"
    BAD = "bad"
    UNSEEN = "unseen"
    """It couldn't be looked at from here, or needn't be."""

    @property
    def sign(self) -> str:
        """For a terminal."""
        return {"good": "✔", "bad": "✘", "unseen": "–"}[self.value]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line. `status`: the exit status that it asks for if it is bad."""

    check: str
    verdict: Verdict
    found: str
    remedy: str = ""
    status: int = 0


class Unfit(Exception):
    """What a check raises for a fault that has its own remedy; `kind` says which class of failure it is."""

    def __init__(self, kind: type[AgentMemError], found: str, remedy: str) -> None:
        super().__init__(found)
        self.kind, self.found, self.remedy = kind, found, remedy


class Unseen(Exception):
    """What a check raises that can't look, saying why."""


def examine(check: str, look: Callable[[], str]) -> Finding:
    """The finding of a check: what `look` returns, or what it raises. An unexpected exception is a finding,
    too: one check that breaks doesn't hide the others."""
    try:
        return Finding(check, Verdict.GOOD, look())
    except Unseen as why:
        return Finding(check, Verdict.UNSEEN, str(why))
    except Unfit as fault:
        return Finding(check, Verdict.BAD, fault.found, fault.remedy, fault.kind.exit_code)
    except AgentMemError as error:
        return Finding(check, Verdict.BAD, str(error), status=error.exit_code)
    except EnvSetupError as error:
        return Finding(check, Verdict.BAD, str(error), status=2)
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        return Finding(check, Verdict.BAD, f"the check broke: {type(error).__name__}: {text}", status=1)


def exit_status(findings: Sequence[Finding]) -> int:
    """See the module's docstring."""
    return next((f.status for f in findings if f.verdict is Verdict.BAD), 0)


def line(finding: Finding, width: int = 0) -> str:
    """As a terminal shows it; the remedy stands on the same line, behind an arrow."""
    remedy = f" → {finding.remedy}" if finding.remedy and finding.verdict is Verdict.BAD else ""
    return f"{finding.verdict.sign} {finding.check:<{width}}  {finding.found}{remedy}"


def summary(findings: Sequence[Finding]) -> str:
    """The last line."""
    count = {verdict: sum(f.verdict is verdict for f in findings) for verdict in Verdict}
    text = f"{count[Verdict.GOOD]} checks passed, {count[Verdict.BAD]} failed"
    if count[Verdict.UNSEEN]:
        text += f", {count[Verdict.UNSEEN]} not looked at"
    status = exit_status(findings)
    return f"{text} (exit status {status})" if status else text


def as_json(recipe: str, findings: Sequence[Finding]) -> str:
    """One object in one line."""
    return json.dumps(
        {
            "recipe": recipe,
            "status": exit_status(findings),
            "findings": [asdict(finding) for finding in findings],
        },
        ensure_ascii=False,
    )


def from_json(text: str) -> list[Finding]:
    """The findings of `as_json`. Raises ValueError for anything else."""
    try:
        told = json.loads(text)["findings"]
        return [Finding(**{**each, "verdict": Verdict(each["verdict"])}) for each in told]
    except (TypeError, KeyError) as error:
        raise ValueError(f"no findings: {error}") from None
