"""Runs the stack on one machine without containers: Redis, service and worker as children."""
