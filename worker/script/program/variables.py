"""Which of the worker's environment variables a user's program receives."""

from redkiln.tasks.script import RESERVED_PREFIX

SECRETS = ("HF_TOKEN",)
"""The worker's own secrets, which trainers may use and scripts may not."""
FOLDER_PREFIX = "XDG_"
"""Folders of the worker's user, which scripts may not write."""


def is_passed_on(name: str) -> bool:
    """Return whether a user's program receives this variable of the worker."""
    return name not in SECRETS and not name.startswith((RESERVED_PREFIX, FOLDER_PREFIX))
