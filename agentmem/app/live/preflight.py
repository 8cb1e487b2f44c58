"""What can be seen to be wrong before anything starts: method, environment, tasks, model, replay server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentmem.app.reporting.run_buffer import with_password
from agentmem.app.sinks import sink
from agentmem.config import RunConfig
from agentmem.config.endpoint import EndpointConfig
from agentmem.failures import ConfigError
from agentmem.telemetry.tracing import check_traces

PREFLIGHT_S = 5.0
"""How long a replay server may take to answer before the run starts."""


def preflight(config: RunConfig, seeds: int = 1) -> None:
    """Refuse what can be seen to be wrong before anything starts: method, environment, tasks, model, server.

    `seeds`: how many there are of evaluations, from `evaluation.seed` on.
    """
    from agentmem.app.models.resolve import check_named

    sink.check(config.telemetry.sinks)
    check_traces(config.telemetry.traces)
    if config.method == "mempi-stage1":  # nobody plays
        check_environment(config)
        check_named(config.policies["memory"].model)
        return
    check_method(config)
    check_environment(config)
    check_tasks(config, seeds)
    for name in config.served:
        check_named(config.policies[name].model)
        check_prompts(config, name)
    agent = config.policies["agent"]
    if agent.endpoint is not None:
        check_endpoint(config, agent.endpoint)
    elif not agent.served:
        check_script(config)
    check_server(config)


def check_method(config: RunConfig) -> None:
    """Refuse a method whose trials no agent plays."""
    from actors.rollout.strategies import METHODS

    if config.method not in METHODS:
        raise ConfigError(f"method is '{config.method}': no agent plays it; {', '.join(METHODS)} are played")


def check_environment(config: RunConfig) -> None:
    """Refuse an unknown environment, a wrong option or a missing package before anything starts."""
    from envs.prompting import RECIPE, prompted
    from envs.registry import ENVIRONMENTS, EnvSetupError, check, spec, style, validate_options

    try:
        missing = check(config.env.name, config.env.options)
        if missing:
            raise ConfigError(f"env.name is '{config.env.name}': {missing[0]}")
        validate_options(config.env.name, config.env.options)
        entry = spec(config.env.name, config.env.options)
        if config.env.prompting != RECIPE:
            prompted(style(config.env.name, config.env.options), config.env.prompting)
        if config.env.placement == "local" and not entry.light:
            raise ConfigError(
                f"env.placement is 'local': environment '{config.env.name}' isn't light; use 'worker'"
            )
        if config.env.remember_turns and not entry.deterministic:
            able = ", ".join(name for name, other in ENVIRONMENTS.items() if other.deterministic)
            raise ConfigError(
                f"env.remember_turns is {config.env.remember_turns}: must be 0, as environment "
                f"'{config.env.name}' isn't declared deterministic; these are: {able}"
            )
    except EnvSetupError as error:
        raise ConfigError(f"env: {error}") from error


def check_prompts(config: RunConfig, policy: str) -> None:
    """Refuse a mixture whose domains ask one model in raw text and in chat messages."""
    from agentmem.app.models.resolve import takes_messages
    from envs.options import EnvSetupError

    try:
        takes_messages(config.env.name, config.env.options, advises=policy == "memory")
    except EnvSetupError as error:
        raise ConfigError(f"policies.{policy}: {error}") from error


def check_tasks(config: RunConfig, seeds: int) -> None:
    """Refuse an evaluation on instances that are trained on, and a split without any instance."""
    from agentmem.app.live.held_out import check_apart
    from envs.options import EnvSetupError

    try:
        check_apart(config.env, config.env, config.evaluation, seeds)
    except EnvSetupError as error:
        raise ConfigError(f"env: {error}") from error


def evaluation_tasks(config: RunConfig) -> Iterator[tuple[str, str]]:
    """The evaluation's tasks, as (domain, task id) of a record: also as the single environments call them."""
    from envs.domains import named
    from envs.registry import parts

    for part in parts(config.env.name, config.env.options, "eval"):
        for instance in part.instances:
            yield part.environment, str(instance)
            if part.domain:
                yield config.env.name, named(part.domain, instance)


def check_server(config: RunConfig) -> None:
    """Refuse a replay server that can't serve before anything starts."""
    url = with_password(config.replay.url, "replay.url", "write it in place of ***")
    if url is not None:
        from agentmem.replay.connect import Server

        server = Server(url, deadline_s=PREFLIGHT_S)
        server.check()
        server.close()


def check_script(config: RunConfig) -> None:
    """Refuse a scripted agent where the environment brings none, or none of this name."""
    from envs.registry import EnvSetupError, scripted_agent

    agent = config.policies["agent"]
    try:
        scripted_agent(config.env.name, config.env.options, agent.script or "")
    except EnvSetupError as error:
        raise ConfigError(f"policies.agent.model is '{agent.model}': {error}") from error


def check_memory_model(config: RunConfig, path: Path) -> None:
    """Refuse a directory that can't serve as the memory policy: no model, no decision tokens (Mem-π)."""
    from agentmem.app.models.resolve import check
    from agentmem.chat import DecisionTokens

    DecisionTokens.of(path)
    check(path, config.policies["memory"], config.env.name, config.env.options)


def check_endpoint(config: RunConfig, endpoint: EndpointConfig) -> None:
    """Refuse an endpoint whose key isn't there, or that would be sent raw text."""
    from agentmem.app.models.resolve import takes_messages
    from agentmem.endpoint import Endpoint

    Endpoint(endpoint, config.policies["agent"].model)
    if not takes_messages(config.env.name, config.env.options):
        raise ConfigError(
            f"policies.agent.endpoint is {endpoint.url}: prompts of '{config.env.name}' are raw text for "
            "small models with these env.options; an endpoint needs a format in chat messages"
        )
