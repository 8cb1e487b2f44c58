"""A recorded example trial as one HTML page without others: what `show.py` says as text, easier to skim.

Each episode has its boards or pages, answers, rewards and advantages side by side; prompts are folded. What
models and environments wrote is escaped, and stands in the page as text only.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from agentmem.app.reporting.examples import Example
from agentmem.app.reporting.show import clean, heading, memory_of, notes_of
from agentmem.trajectory import Episode, Turn

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1f24; background: #fff }
h1 { font-size: 1.3rem } h2 { font-size: 1.1rem; margin-top: 2rem; border-bottom: 1px solid #d0d7de }
pre { white-space: pre-wrap; margin: .3rem 0; padding: .5rem .7rem; background: #f6f8fa; border-radius: 6px }
pre.said { background: #eef5ff } pre.memory { background: #fff8e6 }
summary { color: #57606a; cursor: pointer }
.turn { border-left: 3px solid #d0d7de; padding-left: .8rem; margin: .8rem 0 }
.facts { color: #57606a } .up { color: #116329 } .down { color: #a40e26 }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117 }
  pre { background: #161b22 } pre.said { background: #10203a } pre.memory { background: #2b2410 }
  .facts, summary { color: #9198a1 } .up { color: #3fb950 } .down { color: #ff7b72 } h2, .turn
  { border-color: #30363d } }
"""


def render_html(example: Example) -> str:
    """The whole page."""
    head = heading(example)
    title = _text(head[0])
    body = [f"<h1>{title}</h1>", *(f'<p class="facts">{_text(line)}</p>' for line in head[1:])]
    body += _parts(example)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _parts(example: Example) -> Iterator[str]:
    trial = example.trial
    notes = iter(notes_of(example))
    for number, advice in enumerate(trial.advice, start=1):
        where = f" before episode {number}" if len(trial.advice) > 1 else ""
        yield f"<h2>Advice{where}: {_text(advice.policy or 'none in time')}</h2>"
        yield from _turn(advice, next(notes), "hint")
    for n, episode in enumerate(trial.episodes):
        yield f"<h2>Episode {n + 1} of at most {trial.mode.episodes}</h2>"
        for label, text in memory_of(trial, n):
            yield _block(label, text, "memory")
        for turn in episode.turns:
            yield from _turn(turn, next(notes), "response")
        yield from _ending(episode)
        if n < len(trial.reflections):
            yield f"<h2>Reflection after episode {n + 1}</h2>"
            yield from _turn(trial.reflections[n], next(notes), "reflection")


def _turn(turn: Turn, note: tuple[str, float | None], what: str) -> Iterator[str]:
    prompt, advantage = note
    yield '<div class="turn">'
    if turn.observation:
        yield _block("", turn.observation)
    if prompt:
        yield f"<details><summary>prompt</summary>{_block('', prompt)}</details>"
    yield _block(what, turn.response, "said")
    facts = [f"action {_text('; '.join(turn.actions))}"] if turn.actions else []
    facts += ["invalid"] if turn.invalid else []
    facts += [f"reward {turn.reward:g}"] if turn.reward is not None else []
    if advantage is not None:
        facts.append(f'<span class="{"up" if advantage >= 0 else "down"}">advantage {advantage:+.3f}</span>')
    yield f'<p class="facts">{" &middot; ".join(facts)}</p></div>'


def _ending(episode: Episode) -> Iterator[str]:
    reward = "none" if episode.reward is None else f"{episode.reward:g}"
    score = "" if episode.score is None else f", score {episode.score:g}"
    yield f"<p><b>stopped</b>: {_text(str(episode.stop))}, reward {reward}{score}</p>"
    if episode.final_observation:
        yield _block("", episode.final_observation)
    if episode.summary:
        yield _block("remembered", episode.summary, "memory")


def _block(label: str, text: str, kind: str = "") -> str:
    shown = f'<span class="facts">{_text(label)}</span>' if label else ""
    attribute = f' class="{kind}"' if kind else ""
    return f"{shown}<pre{attribute}>{_text(text.strip(chr(10)))}</pre>"


def _text(text: str) -> str:
    return html.escape(clean(text))
