"""What a dashboard is, as data: rows of panels with their expressions. And the first one, *Overview*."""

from __future__ import annotations

from dataclasses import dataclass

from agentmem.app.deploy.panels import PanelSpec, Query, Row, last, rate, recent

STATES = ("queued", "running", "buffered")
ENDS = ("trained", "filtered", "failed", "expired")


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. `uid` is part of its address, so it stays."""

    uid: str
    title: str
    about: str
    rows: tuple[Row, ...]


OVERVIEW = Board(
    "agentmem-overview",
    "AgentMem / Overview",
    "Is it learning, how fast, how stale, and does everything add up?",
    (
        Row(
            "Now",
            (
                PanelSpec(
                    "Updates done",
                    "Updates of the learner, resumes included.",
                    (Query(last("agentmem_done_updates_count")),),
                    kind="stat",
                    width=4,
                    height=4,
                ),
                PanelSpec(
                    "Of planned",
                    "Share of the planned updates that are done.",
                    (
                        Query(
                            last("agentmem_done_updates_count")
                            + " / "
                            + last("agentmem_planned_updates_count")
                        ),
                    ),
                    unit="percentunit",
                    kind="stat",
                    width=4,
                    height=4,
                ),
                PanelSpec(
                    "Since the last update",
                    "Grows without bound when the learner waits or hangs.",
                    (Query(f"time() - {last('agentmem_last_update_timestamp_seconds')}"),),
                    unit="s",
                    kind="stat",
                    width=4,
                    height=4,
                    steps=((300, "orange"), (900, "red")),
                ),
                PanelSpec(
                    "Unaccounted tickets",
                    "submitted minus queued, running, buffered, trained, filtered, failed and expired: 0.",
                    (Query(last("agentmem_unaccounted_tickets")),),
                    kind="stat",
                    width=4,
                    height=4,
                    steps=((1, "red"),),
                ),
                PanelSpec(
                    "Restarts",
                    "Of all parts, in the last hour.",
                    (Query(recent("agentmem_restarts_total", "run", "1h")),),
                    kind="stat",
                    width=4,
                    height=4,
                    steps=((1, "orange"), (3, "red")),
                ),
                PanelSpec(
                    "Versions behind",
                    "Weight version of the learner minus the oldest one that an engine serves.",
                    (
                        Query(
                            f"{last('agentmem_trained_version_count')} - "
                            'min by (run) (agentmem_served_version_count{run=~"$run"})'
                        ),
                    ),
                    kind="stat",
                    width=4,
                    height=4,
                    steps=((2, "orange"), (4, "red")),
                ),
            ),
        ),
        Row(
            "Learning",
            (
                PanelSpec(
                    "Success within k episodes",
                    "p@k of the last update's trials.",
                    (Query(last("agentmem_pass_at_k_ratio", "run, reason"), "{{run}} p@{{reason}}"),),
                    unit="percentunit",
                    low=0,
                    high=1,
                ),
                PanelSpec(
                    "Success by environment",
                    "Trials solved, of the last update's.",
                    (Query(last("agentmem_success_ratio", "run, env"), "{{run}} {{env}}"),),
                    unit="percentunit",
                    low=0,
                    high=1,
                ),
                PanelSpec(
                    "Staleness",
                    "Mean age of the last update's tokens, in weight versions.",
                    (Query(last("agentmem_staleness_updates")),),
                    low=0,
                ),
            ),
        ),
        Row(
            "Throughput",
            (
                PanelSpec(
                    "Trials per second",
                    "Finished trials.",
                    (Query(rate("agentmem_trials_total", "run, env"), "{{run}} {{env}}"),),
                    low=0,
                ),
                PanelSpec(
                    "Tokens per second",
                    "Read as prompts and sampled by engines, and trained with a gradient.",
                    (
                        Query(rate("agentmem_engine_prompt_tokens_total", "run"), "{{run}} prompts"),
                        Query(rate("agentmem_sampled_tokens_total", "run"), "{{run}} sampled"),
                        Query(rate("agentmem_trained_tokens_total", "run"), "{{run}} trained"),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Idle shares",
                    "Learner: waiting for groups and pushing weights. Rollout: empty places for trials.",
                    (Query(last("agentmem_idle_ratio", "run, role"), "{{run}} {{role}}"),),
                    unit="percentunit",
                    low=0,
                    high=1,
                ),
            ),
        ),
        Row(
            "Accounting",
            (
                PanelSpec(
                    "Tickets now",
                    "By state. Queued alone growing: agents are too slow. Buffered: the learner is.",
                    tuple(Query(last(f"agentmem_{s}_tickets"), f"{{{{run}}}} {s}") for s in STATES),
                    stacked=True,
                    width=12,
                    low=0,
                ),
                PanelSpec(
                    "Ends of tickets per second",
                    "Trained, filtered (no gradient), failed (budget spent), expired (too stale).",
                    tuple(
                        Query(rate(f"agentmem_{end}_tickets_total", "run"), f"{{{{run}}}} {end}")
                        for end in ENDS
                    ),
                    width=12,
                    low=0,
                ),
            ),
        ),
    ),
)
