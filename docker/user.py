"""The users in the containers: numbers, for the images' own names for them differ."""

REDKILN_UID = 10001
"""Service and worker; one user, so that the worker reads the key file that the service wrote."""
REDKILN_GID = 10001
REDIS_UID = 10002
REDIS_GID = 10002
