"""What `agentmem bank` needs of the other rooms: trials of runs and files, and a writer."""
