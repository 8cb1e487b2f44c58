"""Checks before anything starts: one small function each, one line each."""
