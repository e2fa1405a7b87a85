"""Entrypoint of the worker's container.

    python -m docker.worker COMMAND [ARGUMENT...]

Starts as root, adds the groups that own the GPU's nodes, drops to an unprivileged user, checks as
that user that the nodes open, and runs the command as PID 1.
"""

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from docker.devices import (
    EXPECTATIONS,
    Identity,
    Node,
    Opening,
    decide_groups,
    judge_openings,
)
from docker.service import EX_CONFIG, say
from docker.service import main as run
from docker.user import REDKILN_GID, REDKILN_UID

CAP_SETGID = 1 << 6
CAP_SETUID = 1 << 7

CANNOT_LEAVE_ROOT = f"""\
This container starts as root but may not become another user.
Either add two capabilities to the worker:  cap_add: [SETUID, SETGID]
or start it as its own user:                user: {REDKILN_UID}:{REDKILN_GID}"""


def main(command: list[str]) -> int:
    """Run the command as the unprivileged user and return its exit status."""
    expected = os.environ.get("REDKILN_DEVICES", "none")
    if expected not in EXPECTATIONS:
        return _stop(
            [f"REDKILN_DEVICES={expected} is not valid. Set it to {', '.join(EXPECTATIONS)}."]
        )
    nodes = find_nodes(Path("/dev")) if expected != "none" else []
    identity = read_identity()
    grant = decide_groups(nodes, expected=expected, identity=identity)
    if grant.problems:
        return _stop(grant.problems)
    if os.getuid() == 0:
        if not identity.can_add_groups:
            return _stop([CANNOT_LEAVE_ROOT])
        become(REDKILN_UID, REDKILN_GID, grant.groups)
    problems, notes = judge_openings(open_each(nodes), uid=os.getuid())
    say(notes)
    if problems:
        return _stop(problems)
    if problem := find_unwritable(os.environ):
        return _stop([problem])
    return run(command)


def find_nodes(folder: Path) -> list[Node]:
    """Return the GPU's nodes below a `/dev` folder."""
    nodes = []
    for path in sorted([*folder.glob("kfd"), *folder.glob("dxg"), *folder.glob("dri/renderD*")]):
        facts = path.stat()
        nodes.append(Node(str(path), facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)))
    return nodes


def read_identity() -> Identity:
    """Return the user that the command will run as, if nothing prevents it."""
    if os.getuid() != 0:
        return Identity(os.getuid(), frozenset({os.getgid(), *os.getgroups()}), False)
    status = Path("/proc/self/status").read_text()
    needed = CAP_SETGID | CAP_SETUID
    return Identity(
        REDKILN_UID, frozenset({REDKILN_GID}), read_capabilities(status) & needed == needed
    )


def read_capabilities(status: str) -> int:
    """Return the effective capabilities in the text of `/proc/<pid>/status`."""
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)


def become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Drop root permanently: groups first, because that needs a capability that is lost last.

    Raises:
        PermissionError: SETUID or SETGID is missing.
    """
    os.setgroups(list(groups))
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def open_each(nodes: Sequence[Node]) -> list[Opening]:
    """Open every node for reading and writing, like a ROCm program, and close it again."""
    openings = []
    for node in nodes:
        try:
            os.close(os.open(node.path, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            openings.append(Opening(node, error.errno or 0))
        else:
            openings.append(Opening(node, 0))
    return openings


def find_unwritable(environment: Mapping[str, str]) -> str | None:
    """Return what to do about a folder that the worker's user cannot write to, or None."""
    for name in ("REDKILN_WORKER_DIR", "REDKILN_KERNEL_CACHE_DIR", "REDKILN_LOCK_DIR"):
        folder = environment.get(name)
        if folder and not os.access(folder, os.W_OK | os.X_OK):
            return (
                f"{name}: user {os.getuid()} cannot write to {folder}.\n"
                f"If it is a mounted folder of the host, run on the host:\n"
                f"  sudo chown {os.getuid()} FOLDER"
            )
    return None


def _stop(problems: Sequence[str]) -> int:
    say(problems)
    return EX_CONFIG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
