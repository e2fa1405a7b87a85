"""Which of the worker's own variables a user's program gets."""

from redkiln.tasks.script import RESERVED_PREFIX

SECRETS = ("HF_TOKEN",)
"""A worker's own, which a trainer may use and a script may not."""
FOLDER_PREFIX = "XDG_"
"""Folders of the worker's user, which a script may not write."""


def is_passed_on(name: str) -> bool:
    """Whether a program of a user's gets this variable of the worker's."""
    return name not in SECRETS and not name.startswith((RESERVED_PREFIX, FOLDER_PREFIX))
