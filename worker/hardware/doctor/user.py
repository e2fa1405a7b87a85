"""The user as whom the doctor looks: for root in a container, the worker's own user.

`docker compose exec` starts as root, without the groups that the entrypoint adds, so nodes and
folders would be judged for a user as whom the worker never runs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.hardware.doctor.machine import is_container, read


@dataclass(frozen=True)
class User:
    """Ids of a user, its group and its supplementary groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def parse_user(status: str) -> User | None:
    """Parse the effective user in the text of `/proc/<pid>/status`; None if it is missing."""
    fields = {name: rest.split() for name, _, rest in map(_split, status.splitlines())}
    try:
        groups = tuple(int(number) for number in fields.get("Groups", []))
        return User(int(fields["Uid"][1]), int(fields["Gid"][1]), groups)
    except (KeyError, IndexError, ValueError):
        return None


def find_worker_user(root: Path, environment: Mapping[str, str], *, uid: int) -> User | None:
    """Find the user to become; None if this process is that user, or not in a container.

    Args:
        root: Folder that contains `/proc`.
        environment: Environment of this process.
        uid: User id of this process.
    """
    if uid != 0 or not is_container(root, environment):
        return None
    first = parse_user(read(root / "proc/1/status") or "")
    return first if first is not None and first.uid != 0 else None


def become(user: User) -> bool:
    """Become that user; return False if this process may not change its user."""
    try:
        os.setgroups(list(user.groups))
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    except PermissionError:
        return False
    return True


def _split(line: str) -> tuple[str, str, str]:
    return line.partition(":")
