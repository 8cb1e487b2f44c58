"""`agentmem eval` and `agentmem compare`: frozen weights on held-out instances, and what that shows."""
