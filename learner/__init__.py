"""Learning: credit assignment, objectives, batching, the DeepSpeed group, checkpoints and SFT."""
