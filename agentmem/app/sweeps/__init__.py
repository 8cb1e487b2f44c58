"""`agentmem compare --sweep`: many runs, and tables of them."""
