"""`python -m agentmem` is the same as `agentmem`."""

from agentmem.app.cli import main

if __name__ == "__main__":
    main()
