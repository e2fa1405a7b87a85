"""As whom the doctor looks: in a container that one enters as root, as the worker's own user.

`docker compose exec` starts as root without the groups that the entrypoint has added, so that
nodes and folders would be judged for somebody who never works here.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.hardware.doctor.machine import is_container, read


@dataclass(frozen=True)
class User:
    """Numbers of a user, of its group and of its further groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def parse_user(status: str) -> User | None:
    """The effective user in the text of `/proc/<pid>/status`; None where it does not tell."""
    fields = {name: rest.split() for name, _, rest in map(_split, status.splitlines())}
    try:
        groups = tuple(int(number) for number in fields.get("Groups", []))
        return User(int(fields["Uid"][1]), int(fields["Gid"][1]), groups)
    except (KeyError, IndexError, ValueError):
        return None


def find_worker_user(root: Path, environment: Mapping[str, str], *, uid: int) -> User | None:
    """The user to become; None where one is that already, or there is no container.

    Args:
        root: what `/proc` is below.
        environment: of this process.
        uid: of this process.
    """
    if uid != 0 or not is_container(root, environment):
        return None
    first = parse_user(read(root / "proc/1/status") or "")
    return first if first is not None and first.uid != 0 else None


def become(user: User) -> bool:
    """Be that user from now on; False where this process may not change."""
    try:
        os.setgroups(list(user.groups))
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    except PermissionError:
        return False
    return True


def _split(line: str) -> tuple[str, str, str]:
    return line.partition(":")
