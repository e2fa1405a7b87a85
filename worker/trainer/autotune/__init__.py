"""Measurements on this machine before a job trains."""
