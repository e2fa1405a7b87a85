"""The users in the containers, as numbers, because their names differ between images."""

REDKILN_UID = 10001
"""Service and worker share a user, so that the worker can read the service's key file."""
REDKILN_GID = 10001
REDIS_UID = 10002
REDIS_GID = 10002
