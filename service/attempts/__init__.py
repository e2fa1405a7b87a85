"""Attempts: executions of jobs by workers, each under a fencing token and a lease."""
