"""Finds the groups that can open the GPU's device nodes, and explains what to do if none can.

The nodes belong to the host's `render` group, whose number differs between hosts, so that no fixed
`group_add` works everywhere: the numbers are read from the nodes. This module only decides; the
facts are arguments, `docker.worker` collects them and acts.
"""

import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

OVERFLOW_ID = 65534
"""Owner and group that a user namespace shows for ids that it does not map."""

EXPECTATIONS = ("amd", "wsl", "vulkan", "none")

NO_GPU = "Without a GPU, on the host:     ./up --cpu"

AMD_DEVICES = (
    "compose.yaml passes both. In your own call of Docker, add:\n"
    "  --device /dev/kfd --device /dev/dri\n"
    "Docker Desktop cannot pass them; use Docker Engine:   docker context use default"
)
OTHER_DEVICES = {"/dev/dxg": "For WSL, on the host:           ./up --wsl"}
"""How a device gets into the container, if not as `AMD_DEVICES` says."""


@dataclass(frozen=True)
class Node:
    """A device node, as `stat` shows it in the container."""

    path: str
    uid: int
    gid: int
    mode: int

    @property
    def is_render(self) -> bool:
        """Whether it is the node of one card, and not that of the driver."""
        return self.path.rpartition("/")[2].startswith("renderD")

    @property
    def listing(self) -> str:
        """Owner, group and mode, for messages."""
        return f"{self.path} (owner {self.uid}, group {self.gid}, mode {self.mode:o})"


@dataclass(frozen=True)
class Identity:
    """The user that the worker will run as.

    Attributes:
        groups: Present groups of the process.
        can_add_groups: Whether it is root and has CAP_SETGID.
    """

    uid: int
    groups: frozenset[int]
    can_add_groups: bool


@dataclass(frozen=True)
class Grant:
    """The groups to add, or the problems that prevent the worker from starting."""

    groups: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Opening:
    """The result of opening a node: 0, or an errno."""

    node: Node
    error: int


def decide_groups(nodes: Sequence[Node], *, expected: str, identity: Identity) -> Grant:
    """Return the groups that open every node, or what is missing.

    Args:
        nodes: Nodes in the container.
        expected: `amd` expects /dev/kfd and a render node, `vulkan` a render node, `wsl` /dev/dxg,
            `none` nothing.
        identity: User that will open the nodes.
    """
    if expected == "none":
        return Grant()
    if problem := _find_missing(nodes, expected):
        return Grant(problems=(problem,))
    closed = [node for node in nodes if not _opens(node, identity.uid, identity.groups)]
    hopeless = {node: text for node in closed if (text := _explain_closed(node, identity))}
    needed = [node for node in nodes if not node.is_render]
    if all(node in hopeless for node in nodes if node.is_render):
        needed = list(nodes)  # with several cards, one that opens is enough
    if problems := tuple(hopeless[node] for node in needed if node in hopeless):
        return Grant(problems=problems)
    return Grant(groups=tuple(sorted({node.gid for node in closed if node not in hopeless})))


def judge_openings(openings: Sequence[Opening], *, uid: int) -> tuple[list[str], list[str]]:
    """Return problems that prevent the start, and notes for the log, after opening the nodes.

    Only a refused permission is a problem: any other error is the driver's answer, which shows that
    the node itself can be reached. One card that opens is enough.
    """
    refused = {opening.node for opening in openings if opening.error in (errno.EACCES, errno.EPERM)}
    renders = {opening.node for opening in openings if opening.node.is_render}
    spared = renders if renders - refused else set()
    problems = [
        _explain_refusal(opening, uid) for opening in openings if opening.node in refused - spared
    ]
    return problems, [_describe(opening, uid) for opening in openings]


def _explain_refusal(opening: Opening, uid: int) -> str:
    if opening.error == errno.EPERM:
        return (
            f"{opening.node.path} is in the container, but the device cgroup forbids opening it.\n"
            f"List it under `devices:` of the worker, not under `volumes:`:\n"
            f"  devices: [/dev/kfd, /dev/dri]"
        )
    return f"{opening.node.listing} cannot be opened by user {uid}: permission denied."


def _describe(opening: Opening, uid: int) -> str:
    path = opening.node.path
    if opening.error == 0:
        return f"{path} can be opened by user {uid}"
    reason = os.strerror(opening.error)
    if opening.error in (errno.EACCES, errno.EPERM):
        return f"{path} cannot be opened by user {uid}: {reason}"
    return f"{path} is open to user {uid}; the driver answers: {reason}"


def _find_missing(nodes: Sequence[Node], expected: str) -> str | None:
    names = {node.path.rpartition("/")[2] for node in nodes}
    if expected == "wsl":
        return None if "dxg" in names else _missing("/dev/dxg", "is this WSL2 with an AMD driver?")
    if "kfd" not in names and expected != "vulkan":
        return _missing("/dev/kfd", "is the amdgpu driver loaded (`sudo modprobe amdgpu`)?")
    if not any(node.is_render for node in nodes):
        return _missing("/dev/dri/renderD*", "is the card's render node passed to it?")
    return None


def _missing(path: str, question: str) -> str:
    return (
        f"{path} is not in this container: {question}\n"
        f"Check on the host:              ls -l /dev/kfd /dev/dri\n"
        f"{OTHER_DEVICES.get(path, AMD_DEVICES)}\n{NO_GPU}"
    )


def _opens(node: Node, uid: int, groups: frozenset[int]) -> bool:
    if node.uid == uid:
        needed = stat.S_IRUSR | stat.S_IWUSR
    elif node.gid in groups:
        needed = stat.S_IRGRP | stat.S_IWGRP
    else:
        needed = stat.S_IROTH | stat.S_IWOTH
    return node.mode & needed == needed


def _explain_closed(node: Node, identity: Identity) -> str | None:
    """Return why membership of the node's group cannot help, or None if it can."""
    group_bits = stat.S_IRGRP | stat.S_IWGRP
    if node.mode & group_bits != group_bits:
        return (
            f"{node.listing} does not let its group open it.\nOn the host, until the next boot:\n"
            f"  sudo chgrp render {node.path} && sudo chmod 660 {node.path}\n"
            f"Permanently: install the udev rule for amdgpu (package `amdgpu-core`), or write\n"
            f'  SUBSYSTEM=="kfd", GROUP="render", MODE="0660" to /etc/udev/rules.d/70-kfd.rules.'
        )
    if node.gid == OVERFLOW_ID:
        return (
            f"{node.listing} belongs to a group that this rootless engine does not map.\n"
            f"With Podman, use `--group-add keep-groups` and a user in the group `render`."
        )
    if not identity.can_add_groups:
        return (
            f"{node.listing}: group {node.gid} is missing, and this container cannot add it,\n"
            f"as it does not start as root with SETUID and SETGID. On the host:\n"
            f"  echo REDKILN_GPU_GROUP={node.gid} >> .env && docker compose up --detach worker\n"
            f"In your own call of Docker, add:   --group-add {node.gid}"
        )
    return None
