"""The parts of a run while it lives, and what watches over them: used by training and evaluation alike."""
