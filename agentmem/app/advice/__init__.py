"""A trained memory policy as a service of its own, apart from any run (`agentmem advise`)."""
