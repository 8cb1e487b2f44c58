"""The dashboards *Rollout* and *Learner*, as data."""

from __future__ import annotations

from agentmem.app.deploy.boards import Board
from agentmem.app.deploy.panels import PanelSpec, Query, Row, last, quantile, rate, recent

ROLLOUT = Board(
    "agentmem-rollout",
    "AgentMem / Rollout",
    "Env workers, agents, engines: who waits for whom.",
    (
        Row(
            "Members",
            (
                PanelSpec(
                    "Parts",
                    "Running and desired, by role. Apart for long: there is no room, or they die.",
                    (
                        Query(last("agentmem_members_count", "run, role"), "{{run}} {{role}}"),
                        Query(
                            last("agentmem_desired_members_count", "run, role"), "{{run}} {{role}} desired"
                        ),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Load",
                    "Work against capacity, by role, as the autoscaler sees it. 1: full.",
                    (Query(last("agentmem_load_ratio", "run, role"), "{{run}} {{role}}"),),
                    low=0,
                ),
                PanelSpec(
                    "Changes of numbers",
                    "By agentmem scale and the autoscaler, in ten minutes. Refused: driver.log says why.",
                    (
                        Query(
                            recent("agentmem_scaling_total", "run, role, reason", "10m"),
                            "{{run}} {{role}} {{reason}}",
                        ),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Restarts",
                    "By role, in ten minutes.",
                    (
                        Query(
                            recent("agentmem_restarts_total", "run, role", "10m"),
                            "{{run}} {{role}}",
                        ),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Attempts that went wrong per second",
                    "Given back for a retry, leases that ran out, tickets that failed for good.",
                    (
                        Query(rate("agentmem_retried_tickets_total", "run"), "{{run}} retried"),
                        Query(rate("agentmem_expired_leases_total", "run"), "{{run}} leases"),
                        Query(rate("agentmem_dead_letters_total", "run"), "{{run}} dead letters"),
                    ),
                    low=0,
                ),
            ),
        ),
        Row(
            "Agents",
            (
                PanelSpec(
                    "Trials in flight",
                    "Against the places that agents have.",
                    (
                        Query(last("agentmem_in_flight_trials"), "{{run}} in flight"),
                        Query(last("agentmem_trial_places"), "{{run}} places"),
                        Query(last("agentmem_unwritten_trials"), "{{run}} unwritten"),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Event loop's delay",
                    "The longest of an agent's. Above 0.1 s: give it fewer trials, or start more agents.",
                    (Query(last("agentmem_agent_lag_seconds")),),
                    unit="s",
                    low=0,
                ),
                PanelSpec(
                    "Episodes per second by stop reason",
                    "env_failure: environments break; token_limit, context_exhausted: prompts are too long.",
                    (Query(rate("agentmem_episodes_total", "run, reason"), "{{run}} {{reason}}"),),
                    stacked=True,
                    low=0,
                ),
                PanelSpec(
                    "Turns per second",
                    "LLM calls by kind.",
                    (Query(rate("agentmem_turns_total", "run, reason"), "{{run}} {{reason}}"),),
                    stacked=True,
                    low=0,
                ),
                PanelSpec(
                    "Turns without a usable action",
                    "Share of the environment's steps.",
                    (
                        Query(
                            f"{rate('agentmem_invalid_turns_total', 'run, env')} / "
                            f"{rate('agentmem_env_steps_total', 'run, env')}",
                            "{{run}} {{env}}",
                        ),
                    ),
                    unit="percentunit",
                    low=0,
                    high=1,
                ),
                PanelSpec(
                    "Places for environments",
                    "In env workers. Trials that wait in line: start more workers.",
                    (Query(last("agentmem_env_slots", "run, reason"), "{{run}} {{reason}}"),),
                    low=0,
                ),
            ),
        ),
        Row(
            "Engines",
            (
                PanelSpec(
                    "Requests under way",
                    "By policy, all engines together, and of them those in line.",
                    (
                        Query(
                            last("agentmem_engine_in_flight_requests", "run, policy"), "{{run}} {{policy}}"
                        ),
                        Query(
                            last("agentmem_engine_queued_requests", "run, policy"),
                            "{{run}} {{policy}} in line",
                        ),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "KV cache in use",
                    "Of the fullest engine. Near 100 %: requests are preempted; more engines help.",
                    (Query(last("agentmem_engine_cache_ratio", "run, policy"), "{{run}} {{policy}}"),),
                    unit="percentunit",
                    low=0,
                    high=1,
                ),
                PanelSpec(
                    "Requests per second",
                    "Answered and failed.",
                    (
                        Query(rate("agentmem_engine_requests_total", "run, policy"), "{{run}} {{policy}}"),
                        Query(
                            rate("agentmem_engine_failures_total", "run, policy"), "{{run}} {{policy}} failed"
                        ),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Tokens per forward pass",
                    "Sampled tokens: how full the batches are.",
                    (
                        Query(
                            f"{rate('agentmem_sampled_tokens_total', 'run, policy')} / "
                            f"{rate('agentmem_engine_steps_total', 'run, policy')}",
                            "{{run}} {{policy}}",
                        ),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Weight versions",
                    "Of the learner, and the oldest that an engine serves.",
                    (
                        Query(last("agentmem_trained_version_count"), "{{run}} trained"),
                        Query('min by (run) (agentmem_served_version_count{run=~"$run"})', "{{run}} served"),
                    ),
                ),
                PanelSpec(
                    "Held by weight updates",
                    "Share of time for which engines pause for new weights, all engines added.",
                    (
                        Query(
                            rate("agentmem_engine_paused_seconds_total", "run, policy"), "{{run}} {{policy}}"
                        ),
                    ),
                    unit="percentunit",
                    low=0,
                ),
                PanelSpec(
                    "Weight updates that an engine failed",
                    "Each is tried again; an engine that goes on failing is replaced.",
                    (
                        Query(
                            recent("agentmem_engine_failed_swaps_total", "run, policy", "10m"),
                            "{{run}} {{policy}}",
                        ),
                    ),
                    low=0,
                ),
            ),
        ),
    ),
)


def _value(title: str, about: str, *names: str) -> PanelSpec:
    """Numbers of the last update, by their names."""
    where = f'reason=~"{"|".join(names)}"'
    return PanelSpec(
        title, about, (Query(last("agentmem_update_value", "run, reason", where), "{{run}} {{reason}}"),)
    )


LEARNER = Board(
    "agentmem-learner",
    "AgentMem / Learner",
    "Updates: their numbers, their time, and how new weights reach engines.",
    (
        Row(
            "Numbers of the last update",
            (
                _value(
                    "Loss",
                    "Policy loss; value loss of PPO; loss of Stage 1, and on held-out tasks.",
                    "policy_loss",
                    "value_loss",
                    "distil_loss",
                    "held_out_loss",
                ),
                _value(
                    "Entropy",
                    "In nats a token. Falling fast towards 0: exploration is over.",
                    "entropy",
                ),
                _value("Gradient norm", "Before clipping.", "grad_norm"),
                _value(
                    "Engine against learner",
                    "KL estimate between what was sampled from and the learner's own distribution; ratio.",
                    "mismatch_kl",
                    "ratio_mean",
                ),
                _value("Clipped tokens", "Share of tokens outside the clipping range.", "clip_fraction"),
                _value("Learning rate", "As it was applied.", "lr"),
            ),
        ),
        Row(
            "Steps",
            (
                PanelSpec(
                    "Updates per second",
                    "All, and those without a step.",
                    (
                        Query(rate("agentmem_updates_total", "run"), "{{run}} all"),
                        Query(rate("agentmem_skipped_updates_total", "run, reason"), "{{run}} {{reason}}"),
                    ),
                    low=0,
                ),
                PanelSpec(
                    "Evaluations under way",
                    "Held-out evaluations: the learner waits for them.",
                    (Query(last("agentmem_evaluations_count")),),
                    low=0,
                ),
                PanelSpec(
                    "Steps with gradients not finite",
                    "Skipped on all ranks. Too many in a row end the run (learner.max_bad_updates).",
                    (Query(recent("agentmem_skipped_steps_total", "run", "10m")),),
                    low=0,
                ),
                _value(
                    "Rewards",
                    "Mean reward of the update's trials, and its intrinsic part.",
                    "reward_mean",
                    "intrinsic_mean",
                ),
            ),
        ),
        Row(
            "Time",
            (
                PanelSpec(
                    "Where an update's time goes",
                    "Seconds of each phase for every second that passes.",
                    (Query(rate("agentmem_update_seconds_total", "run, reason"), "{{run}} {{reason}}"),),
                    unit="percentunit",
                    low=0,
                ),
                PanelSpec(
                    "Slow updates",
                    "95 % of updates are faster, by phase.",
                    (
                        Query(
                            quantile("agentmem_update_duration_seconds", 0.95, "run, reason"),
                            "{{run}} {{reason}}",
                        ),
                    ),
                    unit="s",
                    low=0,
                ),
                PanelSpec(
                    "Slow pushes of weights",
                    "95 % are faster, by phase.",
                    (
                        Query(
                            quantile("agentmem_push_duration_seconds", 0.95, "run, reason"),
                            "{{run}} {{reason}}",
                        ),
                    ),
                    unit="s",
                    low=0,
                ),
            ),
        ),
    ),
)
