"""Checks of what is configured: settings, secrets, environment, data, and what a job would upload.

The first four are what `agentmem run` refuses, too (`live/preflight.py`), asked one by one.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from agentmem.app.doctor.finding import Unfit, Unseen
from agentmem.app.doctor.patient import Patient
from agentmem.failures import ConfigError


def settings(patient: Patient) -> str:
    """Method, sinks, tasks, and a script or endpoint in an agent's place."""
    from agentmem.app.live import preflight
    from agentmem.app.sinks import sink

    config = patient.config
    sink.check(config.telemetry.sinks)
    agent = config.policies["agent"]
    if config.method == "mempi-stage1":
        from agentmem.app.training.stage1 import bank_of

        bank_of(config)
    else:
        preflight.check_method(config)
        if agent.endpoint is not None:
            preflight.check_endpoint(config, agent.endpoint)
        elif not agent.served:
            preflight.check_script(config)
    group = f"{config.rollout.tasks_per_update} × {config.rollout.group_size} trials an update"
    return f"{config.recipe}: method {config.method}, {config.learner.updates} updates, {group}"


def secrets(patient: Patient) -> str:
    """None in the configuration, and those that it refers to are there."""
    from agentmem.app.reporting.run_buffer import PASSWORD, with_password

    config, referred = patient.config, []
    url = config.replay.url or ""
    if urlsplit(url).password:
        raise Unfit(
            ConfigError,
            "replay.url holds a password, which command lines and a job's metadata show",
            f"write redis://***@host:port, and set {PASSWORD} where the run is",
        )
    if "://***@" in url:
        with_password(url, "replay.url", "use a server without one")
        referred.append(PASSWORD)
    endpoint = config.policies["agent"].endpoint
    if endpoint is not None and endpoint.key_env:
        if not os.environ.get(endpoint.key_env):
            raise Unfit(
                ConfigError,
                f"{endpoint.key_env} isn't set (policies.agent.endpoint.key_env)",
                "set it where the run is",
            )
        referred.append(endpoint.key_env)
    return f"by reference: {', '.join(referred)}, set" if referred else "none needed"


def environment(patient: Patient) -> str:
    """Packages, system packages, data and options of the environment; its splits."""
    from agentmem.app.live import preflight
    from envs.registry import instances

    config = patient.config
    preflight.check_environment(config)
    for node in patient.nodes[1:]:
        if node.environment:
            raise Unfit(
                ConfigError, f"node {node.name}: {node.environment[0]}", "install it there, or in its image"
            )
    if config.method == "mempi-stage1":
        return f"{config.env.name}: ready"
    preflight.check_tasks(config, 1)
    counts = {
        split: len(instances(config.env.name, config.env.options, split)) for split in ("train", "eval")
    }
    return f"{config.env.name}: ready, {counts['train']} training and {counts['eval']} held-out instances"


def data(patient: Patient) -> str:
    """Files of the environment's data, against their checksums. Missing ones are `environment`'s to tell."""
    from agentmem.app.fetch import state
    from envs.data import data_dir
    from envs.registry import environments
    from envs.sources import sources

    name = patient.config.env.name
    wanted = [source for each in environments(name, patient.config.env.options) for source in sources(each)]
    if not wanted:
        raise Unseen(f"{name} needs no data files that are known by checksum")
    states = {source: state(source, data_dir()) for source in wanted}
    for source, found in states.items():
        if found == "differs":
            how = f"remove it and run `agentmem data fetch {source.env}`" if source.url else source.note
            raise Unfit(ConfigError, f"{data_dir() / source.path}: not the content it should have", how)
    present = sum(found == "present" for found in states.values())
    if not present:
        raise Unseen(f"none of {len(states)} known files is in {data_dir()} (AGENTMEM_DATA)")
    return f"{present} of {len(states)} known files are in {data_dir()}, with the right checksums"


def upload(patient: Patient) -> str:
    """What `agentmem submit` would send."""
    from agentmem.app.jobs.package import package

    files = package(patient.recipe, patient.include)
    files.check()
    return f"{files} for a job (limit 100 MiB)"
