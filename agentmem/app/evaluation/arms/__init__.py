"""`agentmem arms`: Mem-π and what it is compared with, over one bank, one frozen agent, the same tasks."""
