"""The dashboards *Replay* and *Memory*, as data, and the list of all."""

from __future__ import annotations

from agentmem.app.deploy.boards import OVERVIEW, Board
from agentmem.app.deploy.boards_parts import LEARNER, ROLLOUT
from agentmem.app.deploy.panels import PanelSpec, Query, Row, last, quantile, rate

REPLAY = Board(
    "agentmem-replay",
    "AgentMem / Replay",
    "The buffer: bytes, back-pressure, groups, the replay table, what is dropped.",
    (
        Row(
            "Room",
            (
                PanelSpec(
                    "Bytes",
                    "Payloads held, the part of the replay table, and the budget (replay.byte_budget_mib).",
                    (
                        Query(last("agentmem_buffer_bytes"), "{{run}} held"),
                        Query(last("agentmem_table_bytes"), "{{run}} of the table"),
                        Query(last("agentmem_buffer_budget_bytes"), "{{run}} budget"),
                    ),
                    unit="bytes",
                    low=0,
                ),
                PanelSpec(
                    "Producers that wait",
                    "For bytes: the learner is slower than the rollout, or the budget too small.",
                    (Query(last("agentmem_blocked_producers_count")),),
                    low=0,
                ),
                PanelSpec(
                    "Time spent waiting for room",
                    "Producers' seconds for every second that passes.",
                    (Query(rate("agentmem_blocked_seconds_total", "run")),),
                    low=0,
                ),
            ),
        ),
        Row(
            "Groups",
            (
                PanelSpec(
                    "Groups by state",
                    "Open: members missing. Ready: complete. Taken: in an update. Held: for a checkpoint.",
                    (Query(last("agentmem_groups_count", "run, reason"), "{{run}} {{reason}}"),),
                    stacked=True,
                    width=12,
                    low=0,
                ),
                PanelSpec(
                    "Dropped per second, by reason",
                    "Duplicates, stale, corrupt, groups below the least size, failures by kind.",
                    (Query(rate("agentmem_drops_total", "run, reason"), "{{run}} {{reason}}"),),
                    width=12,
                    low=0,
                ),
            ),
        ),
        Row(
            "Replay table",
            (
                PanelSpec(
                    "Groups in the table",
                    "None where replay.fraction is 0.",
                    (Query(last("agentmem_table_groups_count")),),
                    low=0,
                ),
                PanelSpec(
                    "Groups per second",
                    "Inserted, drawn, evicted, refused, limited.",
                    (Query(rate("agentmem_table_groups_total", "run, reason"), "{{run}} {{reason}}"),),
                    low=0,
                ),
                PanelSpec(
                    "Trials drawn per second",
                    "Trained on once more.",
                    (Query(rate("agentmem_table_drawn_trials_total", "run")),),
                    low=0,
                ),
            ),
        ),
        Row(
            "Too old",
            (
                PanelSpec(
                    "Expired per second, by environment",
                    "Groups beyond replay.hard_staleness.",
                    (Query(rate("agentmem_expired_by_env_total", "run, env"), "{{run}} {{env}}"),),
                    width=12,
                    low=0,
                ),
                PanelSpec(
                    "Expired per second, by length",
                    "By the trial's sampled tokens: if long ones go first, what is trained on is biased.",
                    (
                        Query(
                            rate("agentmem_expired_by_length_total", "run, reason"),
                            "{{run}} up to {{reason}} tokens",
                        ),
                    ),
                    width=12,
                    low=0,
                ),
            ),
        ),
    ),
)

MEMORY = Board(
    "agentmem-memory",
    "AgentMem / Memory",
    "Tips, hints and abstention: what memory is written, shown, and worth.",
    (
        Row(
            "What memory is worth",
            (
                PanelSpec(
                    "Memory gap",
                    "p@k with memory minus p@k without, of the last evaluation under both.",
                    (Query(last("agentmem_memory_gap_ratio", "run, reason"), "{{run}} p@{{reason}}"),),
                    unit="percentunit",
                ),
                PanelSpec(
                    "Success by mode",
                    "EMPO²: trials of the last update without tips, with them, and off policy.",
                    (Query(last("agentmem_mode_success_ratio", "run, reason"), "{{run}} {{reason}}"),),
                    unit="percentunit",
                    low=0,
                    high=1,
                ),
                PanelSpec(
                    "Trials by mode per second",
                    "EMPO²: as the updates drew them.",
                    (Query(rate("agentmem_mode_trials_total", "run, reason"), "{{run}} {{reason}}"),),
                    stacked=True,
                    low=0,
                ),
            ),
        ),
        Row(
            "Tips",
            (
                PanelSpec(
                    "Tips per second",
                    "What became of them after episodes.",
                    (Query(rate("agentmem_tips_total", "run, reason"), "{{run}} {{reason}}"),),
                    low=0,
                ),
                PanelSpec(
                    "Tips held",
                    "In all books.",
                    (Query(last("agentmem_held_tips_count")),),
                    low=0,
                ),
                PanelSpec(
                    "Shown and left out per second",
                    "Tips in prompts, and memories that would have made a prompt too long.",
                    (
                        Query(rate("agentmem_recalled_tips_total", "run"), "{{run}} shown"),
                        Query(rate("agentmem_dropped_memories_total", "run"), "{{run}} left out"),
                    ),
                    low=0,
                ),
            ),
        ),
        Row(
            "Off policy",
            (
                PanelSpec(
                    "Ratios of the last off-policy update",
                    "Tokens masked, mean ratio, effective sample size.",
                    (Query(last("agentmem_off_policy_ratio", "run, reason"), "{{run}} {{reason}}"),),
                ),
                PanelSpec(
                    "Tokens of memory per second",
                    "Sampled for tips and for advice.",
                    (
                        Query(rate("agentmem_tip_tokens_total", "run"), "{{run}} tips"),
                        Query(rate("agentmem_advice_tokens_total", "run"), "{{run}} advice"),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Bytes of tips",
                    "Apart from the buffer's budget.",
                    (Query(last("agentmem_tip_bytes")),),
                    unit="bytes",
                    low=0,
                ),
            ),
        ),
        Row(
            "Hints",
            (
                PanelSpec(
                    "Advice per second",
                    "Mem-π: hints, abstentions, answers that came too late.",
                    (Query(rate("agentmem_advice_total", "run, reason"), "{{run}} {{reason}}"),),
                    stacked=True,
                    width=6,
                    low=0,
                ),
                PanelSpec(
                    "Abstention",
                    "Share of decisions that the policy itself would abstain in, also where its branch was "
                    "forced. Near 0 or 1: collapsed.",
                    (
                        Query(
                            rate("agentmem_advice_decisions_total", "run", 'reason="abstain"')
                            + " / "
                            + rate("agentmem_advice_decisions_total", "run")
                        ),
                        Query(last("agentmem_abstention_collapsed_count"), "{{run}} collapsed"),
                    ),
                    unit="percentunit",
                    width=6,
                    low=0,
                    high=1,
                ),
                PanelSpec(
                    "Decisions by p(generate)",
                    "By the tenth that the probability of a hint lay in. All at one end: collapsed.",
                    (Query(rate("agentmem_advice_choices_total", "run, reason"), "{{run}} from {{reason}}"),),
                    stacked=True,
                    width=6,
                    low=0,
                ),
                PanelSpec(
                    "Questions under way",
                    "Seconds that answered questions took, for every second: how many wait on average.",
                    (Query(rate("agentmem_generator_wait_seconds_total", "run")),),
                    width=6,
                    low=0,
                ),
            ),
        ),
        Row(
            "Decisions",
            (
                PanelSpec(
                    "Abstention by difficulty",
                    "Easy: solved without a hint. Of the last update, and of the last evaluation.",
                    (Query(last("agentmem_abstention_ratio", "run, reason"), "{{run}} {{reason}}"),),
                    unit="percentunit",
                    width=12,
                    low=0,
                    high=1,
                ),
                PanelSpec(
                    "Groups of the last update",
                    "Δ, values of generating and abstaining, share of open gates and of dead groups.",
                    (Query(last("agentmem_advice_value", "run, reason"), "{{run}} {{reason}}"),),
                    width=12,
                ),
            ),
        ),
        Row(
            "Advice services",
            (
                PanelSpec(
                    "Answers per second, by status",
                    "`agentmem advise serve`: 200 is an advice, also a late one; 429 too many at once.",
                    (Query(rate("agentmem_advice_requests_total", "run, reason"), "{{run}} {{reason}}"),),
                    stacked=True,
                    low=0,
                ),
                PanelSpec(
                    "Seconds an answer",
                    "Half of the answers, and 95 %, came within so many.",
                    (
                        Query(quantile("agentmem_advice_duration_seconds", 0.5, "run"), "{{run}} half"),
                        Query(quantile("agentmem_advice_duration_seconds", 0.95, "run"), "{{run}} 95 %"),
                    ),
                    unit="s",
                    low=0,
                ),
                PanelSpec(
                    "Questions of services under way",
                    "By service.",
                    (Query(last("agentmem_advice_in_flight_requests")),),
                    low=0,
                ),
            ),
        ),
    ),
)

BOARDS: tuple[Board, ...] = (OVERVIEW, ROLLOUT, LEARNER, REPLAY, MEMORY)
"""All dashboards, in the order in which one looks at them."""
