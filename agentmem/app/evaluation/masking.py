"""`agentmem eval --mask PIECE`: the second episodes of an evaluation again, with a piece of memory hidden.

- `reflection`, `summary`, `all`: what the first episode left, in part or as a whole.
- `line:N`: the N-th line (from 1) of the first episode's summary. Trials with fewer lines take no part.
- `nothing`: played again with all of its memory. What differs then is chance; it is what the others are read
  against.
- `control`: the reflection gives way to the beginning of the environment's own summary, of equal length in
  characters: does it matter what the reflection says, or only that something of its length stands there?

A trial goes on behind the first episode as it was played (`Ticket.played`), so nothing else differs.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from agentmem.app.evaluation.evaluate import Tick, batch_name, memory_of, play
from agentmem.app.reporting.records import MaskRecord
from agentmem.config import RunConfig
from agentmem.evaluation.lines import TrialLine, line_of
from agentmem.evaluation.masking import SECOND, second_episode
from agentmem.failures import ConfigError
from agentmem.replay import ReplayBuffer
from agentmem.trajectory import Episode, Ticket, Trial, Turn
from envs.base import PromptStyle

MASKS = ("reflection", "summary", "all", "nothing", "control")
_LINE = "line:"


def check_masks(config: RunConfig, masks: Sequence[str]) -> None:
    """Refuse a mask that hides nothing here. Raises ConfigError."""
    memory = memory_of(config, "with_memory")
    for mask in masks:
        number = mask.removeprefix(_LINE)
        if mask not in MASKS and not (mask.startswith(_LINE) and number.isdecimal() and int(number) > 0):
            raise ConfigError(f"--mask is '{mask}': known are {', '.join(MASKS)} and line:N (from 1)")
        if memory not in ("history", "reflection", "both"):
            raise ConfigError(f"--mask {mask}: rollout.memory is '{memory}': history, reflection or both")
        has_summary, has_reflection = memory in ("history", "both"), memory in ("reflection", "both")
        if (mask == "summary" or mask.startswith(_LINE)) and not has_summary:
            raise ConfigError(f"--mask {mask}: rollout.memory is '{memory}', which holds no summary")
        if mask in ("reflection", "control") and not has_reflection:
            raise ConfigError(f"--mask {mask}: rollout.memory is '{memory}', which holds no reflection")
    if masks and config.evaluation.episodes <= SECOND:
        raise ConfigError(
            f"--mask: evaluation.episodes is {config.evaluation.episodes}: memory is for a second episode"
        )
    if masks and "with_memory" not in config.evaluation.conditions:
        raise ConfigError("--mask: evaluation.conditions must hold with_memory")


async def play_masked(
    config: RunConfig, buffer: ReplayBuffer, trials: Sequence[Trial], mask: str, tick: Tick
) -> list[TrialLine]:
    """The second (and later) episodes of an evaluation with memory, again; none if no trial has the piece."""
    from envs.prompting import prompted
    from envs.registry import style

    asked = prompted(style(config.env.name, config.env.options), config.env.prompting)
    batch = batch_name(0, f"mask-{mask}")
    tickets = [
        t for trial in trials if (t := ticket_of(trial, mask, asked.of(trial.task.domain), batch)) is not None
    ]
    if not tickets:
        return []
    played = await play(config, buffer, tickets, batch, tick)
    return [line_of(t, f"mask_{mask}", config.evaluation.seed, sample=t.member) for t in played]


def mask_record(mask: str, played: Sequence[TrialLine], masked: Sequence[TrialLine]) -> MaskRecord:
    """What hiding the piece changed, over the trials of an evaluation that were played again.

    Raises ConfigError if there is none: every first episode was won, or none left the piece.
    """
    remembered = [line for line in played if line.condition == "with_memory"]
    try:
        kept, hidden, d = second_episode(remembered, masked)
    except ValueError:
        lost = sum(len(line.episodes) > SECOND for line in remembered)
        raise ConfigError(
            f"--mask {mask}: of {len(remembered)} trials {lost} had a second episode, and none of these has "
            "that piece of memory of its first: there is nothing to hide"
        ) from None
    return MaskRecord(
        mask=mask,
        trials=sum(len(line.episodes) > SECOND for line in masked),
        tasks=d.tasks,
        remembered=kept,
        masked=hidden,
        difference=d.value,
        low=d.low,
        high=d.high,
        p=d.p,
        better=d.wins,
        worse=d.losses,
    )


def ticket_of(trial: Trial, mask: str, style: PromptStyle, batch: str) -> Ticket | None:
    """The order to play a trial again behind its first episode; None without a second one or the piece."""
    if len(trial.episodes) <= SECOND:
        return None
    found = _hidden(trial, mask, style)
    if found is None:
        return None
    memory, episode, reflections = found
    _, place, member = trial.ticket.rsplit("-", 2)
    return Ticket(
        id=f"{batch}-{place}-{member}",
        task=msgspec.structs.replace(trial.task, group=batch),
        member=trial.member,
        group_size=trial.group_size,
        mode=msgspec.structs.replace(trial.mode, memory=memory),
        played=(episode,),
        reflected=reflections,
    )


def _hidden(trial: Trial, mask: str, style: PromptStyle) -> tuple[str, Episode, tuple[Turn, ...]] | None:
    """Memory mode, first episode and reflection on it without the piece."""
    memory, episode, reflections = trial.mode.memory, trial.episodes[0], trial.reflections[:1]
    if mask == "all":
        return "none", episode, reflections
    if mask == "nothing":
        return memory, episode, reflections
    if mask == "summary" and memory == "both":
        return "reflection", episode, reflections
    if mask == "reflection" and memory == "both":
        return "history", episode, reflections
    if mask == "summary":
        return memory, msgspec.structs.replace(episode, summary=""), reflections
    if mask == "reflection":
        return memory, episode, _said(reflections, "")
    if mask == "control":
        said = style.parse_reflection(reflections[0].response).text if reflections else ""
        text = _summary(episode, style)[: len(said)]
        return (memory, episode, _said(reflections, _answer(text, style))) if said and text else None
    lines = episode.summary.split("\n")
    number = int(mask.removeprefix(_LINE))
    if number > len(lines) or not episode.summary:
        return None
    summary = "\n".join(lines[: number - 1] + lines[number:])
    return memory, msgspec.structs.replace(episode, summary=summary), reflections


def _said(reflections: tuple[Turn, ...], response: str) -> tuple[Turn, ...]:
    """The reflection with other words. Its ids stay, which are what was paid for."""
    return tuple(msgspec.structs.replace(turn, response=response) for turn in reflections)


def _summary(episode: Episode, style: PromptStyle) -> str:
    from actors.rollout.trial import record_of as episode_record

    return episode.summary or style.summarise(episode_record(episode))


def _answer(text: str, style: PromptStyle) -> str:
    """A response that the style reads as this reflection. Raises ConfigError if there is none."""
    for response in (f"<remark>{text}</remark>", text):
        if style.parse_reflection(response).text == text.strip():
            return response
    raise ConfigError(
        f"--mask control: the environment's prompts can't hold the beginning of its summary, {text!r}, as a "
        "reflection"
    )
