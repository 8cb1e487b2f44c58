"""The report's page: from a comparison and its sources to one HTML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from agentmem.app.evaluation.comparison import Arm, Comparison, Name
from agentmem.app.evaluation.comparison_text import cost_text, p_text
from agentmem.app.evaluation.html import charts
from agentmem.app.evaluation.html.looks import Look, looks
from agentmem.app.evaluation.html.style import CSS
from agentmem.app.evaluation.html.svg import tag
from agentmem.app.evaluation.sources import Source
from agentmem.app.reporting.examples import Example, load_examples
from agentmem.app.reporting.records import MaskRecord
from agentmem.app.reporting.rundir import RunDir
from agentmem.app.reporting.show import render, select
from agentmem.evaluation.budget import Cost
from agentmem.evaluation.pass_at_k import Share
from agentmem.failures import ConfigError

EXAMPLES = 2
"""Example trials of a source."""

_DEFINITIONS = (
    ("p@k", "Share of trials solved within their first k episodes; Wilson's 95 % interval."),
    (
        "difference",
        "Mean over the common tasks of one arm's success minus the other's; 95 % interval of a paired "
        "bootstrap over tasks. Beside it the number of tasks that went better, alike and worse, and the "
        "p-value of the exact sign test (with one trial a task: McNemar's).",
    ),
    (
        "equal budget",
        "Solved at a cost of at most so much a trial. A success ends its trial, so a trial's whole cost is "
        "what its success cost; reflections are counted. Dotted line: the least of the arms' dearest trials.",
    ),
    (
        "same failure again",
        "Of the episodes after a lost one, the share lost by exactly the actions of an earlier lost episode.",
    ),
    (
        "same action again",
        "Of the turns whose turn before had an action too, the share in which the two are equal.",
    ),
    ("unusable answers", "Turns whose answer held no action, or one that wasn't possible."),
    (
        "entropy",
        "−Σ p̂ ln p̂ over the exact (observation, action) sequences of a task's trials; mean over tasks, in "
        "nats.",
    ),
    ("worst task", "The least p@k of the tasks with several trials, and how many tasks share it."),
)


def write_page(path: Path, comparison: Comparison, sources: Sequence[Source]) -> None:
    """Replace the file as a whole. Raises ConfigError if it can't be written."""
    check_writable(path)
    part = path.with_name(path.name + ".part")
    part.write_text(page(comparison, sources), encoding="utf-8")
    os.replace(part, path)


def check_writable(path: Path) -> None:
    """Make the file's directory. Raises ConfigError if the file can't be written: better before an evaluation
    than after it."""
    if path.is_dir():
        raise ConfigError(f"--html is {path}: that is a directory, the name of a file is needed")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--html is {path}: can't make its directory: {error.strerror}") from error
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(f"--html is {path}: can't write to its directory")


def page(comparison: Comparison, sources: Sequence[Source]) -> str:
    """The whole document."""
    look = looks(comparison)
    title = " · ".join(source.label for source in sources)
    parts = [
        _head(title, sources),
        _tiles(comparison, look),
        _section(
            "Success on held-out tasks",
            "Share of tasks solved within one, two, … episodes, with 95 % intervals.",
            _legend(look),
            charts.bars(comparison, look),
        ),
    ]
    if comparison.pairs:
        parts.append(
            _section(
                "Differences, paired by task",
                "Both arms played the same tasks, so what differs between tasks cancels out. Intervals that "
                "don't reach zero are coloured.",
                charts.forest(comparison),
            )
        )
    parts += [_training(comparison, look), _budgets(comparison, sources, look), _behaviour(comparison)]
    parts += [_masks(sources), _examples(sources), _notes(comparison, sources)]
    body = tag("main", "".join(parts))
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _head(title: str, sources: Sequence[Source]) -> str:
    env = next((source.env for source in sources if source.env), None)
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    where = f"{escape(env)}, held-out tasks, frozen weights. " if env else ""
    return tag("header", f"<h1>{escape(title)}</h1><p>{where}Written by AgentMem, {now}.</p>")


def _section(title: str, about: str, *content: str) -> str:
    return tag("section", f"<h2>{escape(title)}</h2><p>{escape(about)}</p>{''.join(content)}")


def _tiles(comparison: Comparison, look: dict[Name, Look]) -> str:
    tiles = []
    for arm in comparison.arms:
        last, first = arm.p_at_k[-1], arm.p_at_k[0]
        interval = f"{100 * last.low:.0f}–{100 * last.high:.0f}"
        score = "" if arm.score is None else f" · score {arm.score:.3f}"
        own = look[arm.name]
        tiles.append(
            f'<div class="tile{"" if own.dash is None else " weak"}" style="--hue: {own.colour}">'
            f"<h3>{escape(arm.name.source)}</h3>"
            f'<div class="sub">{escape(arm.name.condition.replace("_", " "))}</div>'
            f'<div class="big">{100 * last.value:.1f}% <small>p@{comparison.k} [{interval}]</small></div>'
            f'<div class="sub">p@1 {100 * first.value:.1f}%{score} · {last.n} trials</div></div>'
        )
    return tag("div", "".join(tiles), class_="tiles")


def _legend(look: dict[Name, Look]) -> str:
    entries = []
    for name, own in look.items():
        box = tag("rect", x=0, y=1, width=13, height=10, rx=2, fill=own.colour, fill_opacity=own.tint)
        line = tag(
            "line",
            x1=17,
            y1=6,
            x2=30,
            y2=6,
            stroke=own.colour,
            stroke_width=2.2,
            stroke_dasharray="4 3" if own.dash else None,
        )
        entries.append(tag("span", tag("svg", box + line, viewBox="0 0 30 12") + escape(str(name))))
    return tag("div", "".join(entries), class_="legend")


def _training(comparison: Comparison, look: dict[Name, Look]) -> str:
    if not any(len(run.points) > 1 for run in comparison.training):
        return ""
    about = (
        f"Held-out p@{comparison.k} in the course of training, with 95 % intervals, over what training had "
        "cost: episodes played, tokens sampled (reflections counted), seconds of updates."
    )
    if comparison.training_cuts:
        about += " Dotted line: the equal budget, where the cheapest run ended."
    drawn = "".join(tag("div", charts.training(comparison, look, cost)) for cost in Cost)
    return _section("Over training", about, _legend(look), tag("div", drawn, class_="three"))


def _budgets(comparison: Comparison, sources: Sequence[Source], look: dict[Name, Look]) -> str:
    arms = [(Name(s.label, condition), lines) for s in sources for condition, lines in s.arms.items()]
    drawn = "".join(
        tag("div", charts.budget(comparison, arms, look, cost)) for cost in (Cost.TOKENS, Cost.WALL)
    )
    costs = list(comparison.cuts)
    header = ["", *(f"within {cost_text(cost, comparison.cuts[cost])}" for cost in costs)]
    rows = [[escape(str(arm.name)), *(_share(arm.within[cost]) for cost in costs)] for arm in comparison.arms]
    about = "Success at a cost of at most so much a trial; seconds depend on what else was in flight."
    if len(arms) > 1:
        about += " Arms are comparable up to the dotted line, the least of the arms' dearest trials."
    return _section(
        "At equal budgets" if len(arms) > 1 else "What a success costs",
        about,
        _legend(look),
        tag("div", drawn, class_="two"),
        _table(header, rows),
        "<p></p>",
        charts.tokens(comparison, look),
    )


def _behaviour(comparison: Comparison) -> str:
    arms = comparison.arms
    header = ["", "same failure again", "same action again", "unusable answers"]
    header += ["entropy"] * any(a.entropy for a in arms) + ["worst task"] * any(a.worst_task for a in arms)
    header += ["episodes", "turns", "wall s"]
    return _section(
        "Behaviour",
        "Does the agent lose the same way twice, does it repeat itself, what does a trial take?",
        _table(header, [_behaviour_row(arm, header) for arm in arms]),
    )


def _behaviour_row(arm: Arm, header: Sequence[str]) -> list[str]:
    row = [escape(str(arm.name)), *map(_share, (arm.repeat_failure, arm.fixation, arm.unusable))]
    if "entropy" in header:
        found = arm.entropy
        row.append(
            "–" if found is None else f"{found.value:.2f}<small>{found.trials:g} trials a task</small>"
        )
    if "worst task" in header:
        worst = arm.worst_task
        shared = "" if worst is None else f"<small>{worst.shared_by} of {worst.tasks} tasks</small>"
        row.append("–" if worst is None else f"{worst.value:.2f}{shared}")
    total, n = arm.spent, arm.spent.trials
    return [*row, f"{total.episodes / n:.2f}", f"{total.turns / n:.1f}", f"{total.wall_s / n:.2f}"]


def _share(share: Share | None) -> str:
    if share is None:
        return "–"
    return f"{share.value:.3f}<small>{share.low:.3f}–{share.high:.3f}</small>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """`header` is text, `rows` are HTML."""
    head = "".join(tag("th", escape(text)) for text in header)
    body = "".join(tag("tr", "".join(tag("td", cell) for cell in row)) for row in rows)
    return tag("div", f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>", class_="scroll")


def _masks(sources: Sequence[Source]) -> str:
    rows = [
        [
            escape(source.label),
            escape(record.mask),
            f"{record.remembered:.3f}",
            f"{record.masked:.3f}",
            f"{record.difference:+.3f}<small>{record.low:+.3f} to {record.high:+.3f}</small>",
            f"{record.better} · {record.tasks - record.better - record.worse} · {record.worse}",
            p_text(record.p),
        ]
        for source in sources
        for record in source.records
        if isinstance(record, MaskRecord)
    ]
    if not rows:
        return ""
    header = ["", "hidden", "solved with it", "solved without", "difference", "better · alike · worse", ""]
    return _section(
        "What the memory is worth",
        "Second episodes played again behind the same lost first one, with a piece of its memory hidden.",
        _table(header, rows),
    )


def _examples(sources: Sequence[Source]) -> str:
    found = []
    for source in sources:
        file = RunDir(source.path.parent).examples
        if file.is_file():
            for example in _chosen(load_examples(file)):
                name = f"{source.label}: {example.trial.task.environment} {example.trial.task.instance}"
                update = f"update {example.update}" if example.update else "evaluation"
                when = f"{update}, memory {example.trial.mode.memory}"
                text = escape(render(example))
                found.append(
                    f"<details><summary>{escape(name)} <small>{escape(when)}</small></summary>"
                    f"<pre>{text}</pre></details>"
                )
    if not found:
        return ""
    about = "What the agent saw, answered and got, and what it took along into the next episode."
    return _section("Example trials", about, *found)


def _chosen(examples: Sequence[Example]) -> list[Example]:
    """One that shows memory at work, and the newest other one."""
    if not examples:
        return []
    first = select(examples)
    others = [example for example in examples if example.trial.task.instance != first.trial.task.instance]
    return [first, *others[-(EXAMPLES - 1) :]]


def _notes(comparison: Comparison, sources: Sequence[Source]) -> str:
    notes = "".join(tag("li", escape(note)) for note in comparison.notes)
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in _DEFINITIONS)
    files = "".join(
        f"<li>{escape(source.label)}: <code>{escape(str(source.path))}</code></li>" for source in sources
    )
    return _section(
        "Notes",
        "What the figures mean, and where they come from.",
        f"<ul>{notes}{files}</ul>",
        tag("dl", terms),
    )
