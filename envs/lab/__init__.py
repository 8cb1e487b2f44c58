"""LifelongAgentBench: questions to a database (`lab-db`) and work in a Linux system (`lab-os`)."""
