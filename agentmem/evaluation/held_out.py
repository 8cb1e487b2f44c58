"""Which held-out instances are evaluated, that they are held out, and the tickets to try them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentmem.failures import ConfigError
from agentmem.trajectory import Mode, Split, Task, Ticket, domain_of


def by_domain(instances: Sequence[str | int]) -> dict[str, Sequence[str | int]]:
    """The instances of each domain of a mixture, in their order; all under the empty name if it is none."""
    if not instances or not domain_of(instances[0]):
        return {"": instances}
    found: dict[str, list[str | int]] = {}
    for instance in instances:
        found.setdefault(domain_of(instance), []).append(instance)
    return dict(found)


def evaluation_instances(instances: Sequence[str | int], n: int, seed: int) -> list[str | int]:
    """`n` held-out instances (all, if there are fewer): the same ones for the same seed.

    Of a mixture's domains as many each, the first ones one more where it doesn't come out even; a domain with
    fewer gives all it has, and isn't made up for. Each domain's are those of its environment alone.
    """
    domains = by_domain(instances)
    chosen = []
    for place, own in enumerate(domains.values()):
        count = n // len(domains) + (place < n % len(domains))
        order = np.random.default_rng(seed).permutation(len(own))[:count]
        chosen += [own[int(i)] for i in order]
    return chosen


def evaluation_tickets(
    environment: str,
    instances: Sequence[str | int],
    n: int,
    seed: int,
    batch: str,
    mode: Mode,
    trials_per_task: int = 1,
) -> list[Ticket]:
    """Each of `evaluation_instances` tried `trials_per_task` times; a ticket's member says which time."""
    return [
        Ticket(
            id=f"{batch}-{place:05d}-{member}",
            task=Task(environment=environment, instance=instance, split=Split.EVAL, group=batch),
            member=member,
            group_size=trials_per_task,
            mode=mode,
        )
        for place, instance in enumerate(evaluation_instances(instances, n, seed))
        for member in range(trials_per_task)
    ]


def check_held_out(train: Sequence[str | int], chosen: Sequence[str | int]) -> None:
    """Refuse to evaluate on an instance that is trained on. Raises ConfigError naming one."""
    trained = train if isinstance(train, range) else set(train)
    for instance in chosen:
        if instance in trained:
            raise ConfigError(
                f"evaluation: instance {instance!r} is in the training split, too: choose splits or tasks "
                "that share none (env.options)"
            )
