"""Runs a user's program as a job: its code, folders and limits, and the files that it leaves."""
