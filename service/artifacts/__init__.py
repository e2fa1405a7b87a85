"""Artifacts: the immutable files that a finished job has published."""
