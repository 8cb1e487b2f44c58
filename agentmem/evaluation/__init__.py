"""Evaluation: success within k episodes, comparisons of runs, and reports that answer readers' questions."""
