"""Which domain of a mixture each record of a bank is about: Stage 1 asks as that domain asks.

A bank that was written from a mixture's own trials names the domain in every task id. One that was written
from a single environment fits where one domain is of that environment.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.config import RunConfig
from agentmem.failures import ConfigError
from agentmem.memory.bank.records import BankRecord
from agentmem.trajectory import domain_of


def domains_of(config: RunConfig, records: Sequence[BankRecord], bank: str) -> list[str]:
    """The domain of each record, empty where the environment is no mixture.

    Raises ConfigError naming a record of no domain or of one that is left out.
    """
    from envs.registry import parts, style, weights

    env = config.env
    trained = weights(env.name, env.options)
    if not trained:
        return [""] * len(records)
    known = style(env.name, env.options).each()
    homes: dict[str, list[str]] = {}
    for part in parts(env.name, env.options, "eval"):
        homes.setdefault(part.environment, []).append(part.domain)
    found = []
    for record in records:
        own = [domain_of(record.task_id)] if record.domain == env.name else homes.get(record.domain, [])
        if len(own) != 1 or own[0] not in known:
            several = f"domains {', '.join(own)} are of it" if len(own) > 1 else "no domain is"
            raise ConfigError(
                f"{bank} holds a record of {record.domain} {record.task_id}: {several}; domains are "
                f"{', '.join(known)}"
            )
        if own[0] not in trained:
            raise ConfigError(
                f"{bank} holds a record of {record.domain} {record.task_id}: domain {own[0]} is left out "
                "(env.options.leave_out); take its records out"
            )
        found.append(own[0])
    return found
