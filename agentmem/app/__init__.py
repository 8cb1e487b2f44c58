"""The roof: command line, run, evaluate, report. The only room that knows all others; nothing imports it."""
