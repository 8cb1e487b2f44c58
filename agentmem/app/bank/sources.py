"""What a bank is written from: the whole trials of runs and of files, as traces whose task is in words.

    RUN           its example trials, and what its replay buffer holds
    *.msgpack     example trials
    *.jsonl       a trial a line, as `agentmem buffer export` writes them, or of another program

Traces of another split than `train` are left out and counted: a bank isn't written from test tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from agentmem.app.reporting.examples import load_examples
from agentmem.app.reporting.run_buffer import open_buffer
from agentmem.app.reporting.rundir import RunDir
from agentmem.failures import ConfigError, ReplayError
from agentmem.memory.bank.traces import Trace, read_traces, traces_of
from agentmem.trajectory import Split, Trial, domain_of

Say = Callable[[str], None]


def collect(sources: Sequence[str], options: Mapping[str, Any], say: Say) -> list[Trace]:
    """The traces of all sources. `options`: the environment's, for trials of files; `say` is told what was
    found and what was left out. Raises ConfigError naming the source if there is nothing to learn from."""
    found: list[Trace] = []
    for source in sources:
        every = list(_in_words(*_read(source, options, say)))
        kept = [trace for trace in every if trace.split is Split.TRAIN]
        left = len(every) - len(kept)
        tasks = len({(trace.domain, trace.task_id) for trace in kept})
        out = f"; {left} of the evaluation's split are left out" if left else ""
        say(f"{source}: {len(kept)} traces of {tasks} tasks{out}")
        if not kept:
            why = "all its trials are evaluation's" if left else "it holds no episode played to its end"
            raise ConfigError(f"--from {source}: {why}, so there is nothing to write hints from")
        found += kept
    return found


def _read(source: str, options: Mapping[str, Any], say: Say) -> tuple[Iterable[Trace], Mapping[str, Any]]:
    """A source's traces, and its environment's options."""
    path = Path(source)
    if path.suffix == ".jsonl":
        return (trace for traces in read_traces(path) for trace in traces), options
    if path.suffix == ".msgpack":
        return _of(example.trial for example in load_examples(path)), options
    run = RunDir.find(source)
    return _of(_trials_of_run(run, say)), _env_options(run)


def _of(trials: Iterable[Trial]) -> Iterator[Trace]:
    return (trace for trial in trials for trace in traces_of(trial))


def _trials_of_run(run: RunDir, say: Say) -> list[Trial]:
    """Each trial once."""
    found: dict[str, Trial] = {}
    if run.examples.is_file():
        found = {example.trial.ticket: example.trial for example in load_examples(run.examples)}
    try:
        found = dict(_trials_of_buffer(run)) | found
    except ReplayError as error:
        if not found:
            raise ConfigError(f"run {run.name} has no whole trial: no example, and {error}") from error
        say(f"{run.name}: its examples alone ({error})")
    return list(found.values())


def _trials_of_buffer(run: RunDir) -> Iterator[tuple[str, Trial]]:
    from agentmem.replay.look import read_trials, stored_trials

    with open_buffer(str(run.path)) as buffer:
        for item, trial in read_trials(buffer, stored_trials(buffer)):
            if isinstance(trial, Trial):
                yield item.ticket, trial


def _env_options(run: RunDir) -> Mapping[str, Any]:
    """The environment's options of a run's configuration."""
    import yaml

    from agentmem.config.load import from_tree

    try:
        tree = yaml.safe_load(run.config_path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{run.config_path} can't be read: {str(error).splitlines()[0]}") from error
    return from_tree(tree).env.options


def _in_words(traces: Iterable[Trace], options: Mapping[str, Any]) -> Iterator[Trace]:
    """The traces, each with its task in words."""
    from envs import registry
    from envs.options import EnvSetupError
    from envs.task_text import task_text

    style = cache(lambda name: registry.style(name, options))
    for trace in traces:
        if trace.task_text.strip():
            yield trace
            continue
        try:
            asks = style(trace.domain).of(domain_of(trace.task_id))
            text = task_text(trace.domain, asks, "", trace.first)
        except EnvSetupError as error:
            raise ConfigError(
                f"trial {trace.source.rpartition(':')[0]} has no instruction, and its environment can't tell "
                f"its rules: {error}"
            ) from error
        yield msgspec.structs.replace(trace, task_text=text)
