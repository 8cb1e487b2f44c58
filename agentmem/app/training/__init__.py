"""`agentmem run`: the driver of a training run, its schedule, its state and its way back."""
