"""Rows 3, 4, 5 and 22: whether the GPU's device nodes exist and can be opened."""

import os

from worker.hardware.doctor.evidence import DeviceNode, Evidence, count_gpus, name_of, render_path
from worker.hardware.doctor.finding import Finding, Row, bad, ok, set_command, unknown

WSL_LIBRARIES = ("libdxcore.so", "librocdxg.so")
"""Libraries that ROCm also needs under WSL2. Source: ROCm/librocdxg#1, #34."""

DXG_DETECTION_UNTIL = (7, 13)
"""From this HIP on the runtime detects dxg by itself. Source: ROCm/librocdxg#34."""

READ_LOG = "sudo dmesg | grep -iE 'kfd|amdgpu'"
USE_WSL = "docker compose -f compose.yaml -f compose.wsl.yaml up --detach"
GROUP_SETTING = "REDKILN_GPU_GROUP"
"""The worker's additional group in compose.yaml."""

UNMAPPED_ID = 65534
"""The id that a user namespace shows for owners that it does not map."""


def check_kfd(evidence: Evidence) -> Finding:
    """Row 3: check the driver's own device node."""
    if evidence.is_wsl:
        return ok("WSL2 has no /dev/kfd; it uses /dev/dxg")
    if evidence.kfd is not None:
        return _judge_kfd(evidence.kfd)
    if evidence.is_docker_desktop:
        return bad(
            "blocks",
            evidence="/dev/kfd does not exist; the kernel is Docker Desktop's own",
            cause="Docker Desktop runs containers in a virtual machine that has no GPU",
            fix="install Docker Engine (docs.docker.com/engine/install) and use it: "
            "docker context use default",
        )
    if evidence.is_container and (evidence.has_driver or evidence.gpus):
        return bad(
            "blocks",
            evidence="/dev/kfd does not exist in this container; the host's driver is loaded",
            cause="the container was started without the device",
            fix="on the host: ./up   (in your own compose file: devices: [/dev/kfd, /dev/dri]; "
            "for docker run: --device /dev/kfd --device /dev/dri)",
            command="./up",
            on_host=True,
        )
    if evidence.has_driver:
        return bad(
            "blocks",
            evidence="/dev/kfd does not exist; the amdgpu driver is loaded",
            cause="the driver does not support compute on this GPU",
            fix=f"{READ_LOG}   shows the reason",
            command=READ_LOG,
        )
    if not evidence.has_amd_gpu:
        return unknown("/dev/kfd does not exist, and there is no other sign of an AMD GPU")
    return bad(
        "blocks",
        evidence=f"/dev/kfd does not exist; there is an AMD card at {', '.join(evidence.pci_gpus)}",
        cause="the amdgpu driver is not loaded",
        fix="sudo modprobe amdgpu" + (" (on the host)" if evidence.is_container else ""),
        command="sudo modprobe amdgpu",
        on_host=evidence.is_container,
    )


def check_permission(evidence: Evidence) -> Finding:
    """Row 4: check whether this user may open the nodes."""
    nodes = [node for node in (evidence.kfd, *evidence.render_nodes) if node is not None]
    if not nodes:
        return unknown("there is no node to open")
    closed = [node for node in nodes if node.is_closed]
    renders_open = any(not node.error for node in evidence.render_nodes)
    # One render node that opens is enough; the driver's own node is always needed.
    closed = [node for node in closed if node is evidence.kfd or not renders_open]
    if not closed:
        opened = ", ".join(node.path for node in nodes if not node.error) or "none"
        return ok(f"opened for reading and writing: {opened}")
    seen = "; ".join(_listing(node) for node in closed)
    return bad(
        "blocks",
        evidence=f"{seen}; this is user {evidence.uid} in the groups "
        f"{', '.join(map(str, sorted(evidence.groups))) or 'none'}",
        cause="only a group may open the nodes, and this process is not in it",
        fix=_explain_group(closed, evidence),
        command=_group_command(closed, evidence),
        on_host=evidence.is_container,
        details={"gids": sorted({node.gid for node in closed})},
    )


def check_render_nodes(evidence: Evidence) -> Finding:
    """Row 5: check for a render node for each GPU that the driver knows."""
    if not evidence.gpus:
        return unknown("the driver's topology shows no GPU")
    if check_kfd(evidence).verdict == "bad":
        return unknown("row 3 explains why no GPU can be opened", fix="see row 3 first")
    usable = evidence.usable_gpus
    present = {node.path for node in evidence.render_nodes}
    forbidden = {node.path for node in evidence.render_nodes if node.is_forbidden}
    absent = [
        gpu
        for gpu in evidence.gpus
        if not gpu.is_accessible
        or (gpu.render_minor is not None and render_path(gpu) not in present - forbidden)
    ]
    if usable or not absent:
        rest = f"; {len(absent)} more not passed to this process" if absent else ""
        return ok(f"{len(usable)} of {count_gpus(len(evidence.gpus))} can be opened here{rest}")
    gpu = next((gpu for gpu in absent if gpu.render_minor is not None), absent[0])
    path = render_path(gpu) if gpu.render_minor is not None else "/dev/dri"
    return bad(
        "blocks",
        evidence=f"the driver shows {name_of(gpu)} with {path}, but this node is "
        f"{'forbidden here' if path in forbidden or not gpu.is_accessible else 'absent'}",
        cause="without the GPU's own render node HIP counts 0 devices",
        fix=f"devices: [/dev/kfd, {path}]   in your own compose file; for docker run: "
        f"--device /dev/kfd --device {path}"
        if evidence.is_container
        else f"ls -l {path}   (is the driver loaded, and udev running?)",
        command="./up" if evidence.is_container else f"ls -l {path}",
        on_host=evidence.is_container,
    )


def check_wsl(evidence: Evidence) -> Finding:
    """Row 22: check what ROCm needs under WSL2."""
    if not evidence.is_wsl:
        return ok("not WSL2")
    if evidence.dxg is None:
        return bad(
            "blocks",
            evidence="/dev/dxg does not exist",
            cause="the container was started without it, or Windows' driver has no WSL support"
            if evidence.is_container
            else "Windows' AMD driver has no WSL support, or WSL is version 1",
            fix=USE_WSL
            if evidence.is_container
            else "wsl --update   (in Windows), and AMD's driver for WSL",
            command=USE_WSL if evidence.is_container else "wsl.exe --update",
            on_host=evidence.is_container,
        )
    lacking = [
        name
        for name in WSL_LIBRARIES
        if not any(path.rpartition("/")[2].startswith(name) for path in evidence.wsl_libraries)
    ]
    if lacking:
        return bad(
            "blocks",
            evidence=f"/dev/dxg exists, but {' and '.join(lacking)} cannot be found",
            cause="ROCm uses Windows' driver through these libraries",
            fix=f"mount /usr/lib/wsl/lib/{lacking[0]} (compose.wsl.yaml does this), "
            "in the release that the runtime needs",
        )
    if _wants_detection(evidence):
        return bad(
            "blocks",
            evidence="HSA_ENABLE_DXG_DETECTION is not 1, and this ROCm is older than 7.13",
            cause="its runtime looks for /dev/dxg only if this variable is set",
            fix="HSA_ENABLE_DXG_DETECTION=1",
            command=set_command("HSA_ENABLE_DXG_DETECTION=1", evidence),
            on_host=evidence.is_container,
        )
    return ok(f"/dev/dxg and {', '.join(WSL_LIBRARIES)} exist")


def _judge_kfd(node: DeviceNode) -> Finding:
    if node.is_forbidden:
        return bad(
            "blocks",
            evidence=_listing(node),
            cause="the node exists, but the container's device rules forbid opening it",
            fix="on the host: ./up   (in your own compose file: devices: [/dev/kfd, /dev/dri], as "
            "a bind mount is not enough; for docker run: --device /dev/kfd --device /dev/dri)",
            command="./up",
            on_host=True,
        )
    if node.error and not node.is_closed:
        return bad(
            "blocks",
            evidence=_listing(node),
            cause="the node may be opened, but the driver does not respond",
            fix=f"{READ_LOG}   shows the reason",
            command=READ_LOG,
        )
    return ok("/dev/kfd exists")


def _explain_group(closed: list[DeviceNode], evidence: Evidence) -> str:
    hidden = [node for node in closed if node.mode & 0o060 != 0o060]
    if hidden:
        path = hidden[0].path
        return f"sudo chgrp render {path} && sudo chmod 660 {path}   (on the host)"
    gids = sorted({node.gid for node in closed})
    if UNMAPPED_ID in gids:
        return "for podman run: --group-add keep-groups   as a user who is in the group render"
    if evidence.is_container:
        listed = ", ".join(f'"{gid}"' for gid in gids)
        options = " ".join(f"--group-add {gid}" for gid in gids)
        return f"group_add: [{listed}]   in your own compose file; for docker run: {options}"
    names = ",".join(sorted({node.group or str(node.gid) for node in closed}))
    return f"sudo usermod --append --groups {names} $USER   and log in again"


def _group_command(closed: list[DeviceNode], evidence: Evidence) -> str:
    """Return the command behind `_explain_group`; empty if one is not enough."""
    gids = sorted({node.gid for node in closed})
    hidden = [node for node in closed if node.mode & 0o060 != 0o060]
    if hidden:
        path = hidden[0].path
        return f"sudo chgrp render {path} && sudo chmod 660 {path}"
    if UNMAPPED_ID in gids:
        return ""
    if evidence.is_container:
        line = f"{GROUP_SETTING}={gids[0]}"
        return f"echo {line} >> .env && docker compose up --detach worker" if len(gids) == 1 else ""
    names = ",".join(sorted({node.group or str(node.gid) for node in closed}))
    return f"sudo usermod --append --groups {names} $USER"


def _wants_detection(evidence: Evidence) -> bool:
    rocm = evidence.torch.rocm_release if evidence.torch else None
    if rocm is None or evidence.environment.get("HSA_ENABLE_DXG_DETECTION") == "1":
        return False
    numbers = [part for part in rocm.split(".")[:2] if part.isdecimal()]
    return len(numbers) == 2 and tuple(map(int, numbers)) < DXG_DETECTION_UNTIL


def _listing(node: DeviceNode) -> str:
    answer = "opens" if not node.error else os.strerror(node.error)
    group = f"{node.group} ({node.gid})" if node.group else str(node.gid)
    return f"{node.path} of user {node.uid}, group {group}, mode {node.mode:o}: {answer}"


ROWS = (
    Row(
        3,
        "kfd_present",
        "the driver's node",
        "`torch.cuda.is_available()` is False with a ROCm build",
        check_kfd,
    ),
    Row(
        4,
        "nodes_open",
        "permission on the nodes",
        "the same, and `Permission denied` on /dev/kfd",
        check_permission,
    ),
    Row(
        5,
        "render_nodes_passed",
        "the GPU's render node",
        "the driver shows a GPU and HIP counts 0 devices",
        check_render_nodes,
    ),
    Row(
        22,
        "wsl",
        "WSL2",
        "no GPU under WSL2",
        check_wsl,
    ),
)
