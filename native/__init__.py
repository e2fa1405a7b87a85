"""The stack on one machine without containers: Redis, service and worker as child processes."""
