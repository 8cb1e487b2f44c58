"""Commands that look at a run or change it while it goes on, through its replay server, from any machine."""
