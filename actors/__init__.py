"""Playing: rollout, env workers, agent actors, engines, fleet."""
