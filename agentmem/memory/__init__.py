"""What is remembered: episodic memory, tips, the experience bank, retrieval, novelty and the advisor."""
