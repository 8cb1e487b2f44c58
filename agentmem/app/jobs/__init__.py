"""Runs as jobs of a Ray cluster: what is uploaded, how they are started, followed and stopped."""
