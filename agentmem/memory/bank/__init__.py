"""Mem-π's experience bank E = {((q, o), m)}: hints that a language model wrote from what was played."""
