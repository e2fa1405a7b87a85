"""Evidence below `/dev`, `/sys` and `/proc`: nodes, driver, processes, and kind of machine.

Everything is read below a root folder, so tests can use an artificial one. Opening /dev/kfd ties a
process to the driver for its lifetime, so this runs in short-lived processes.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from redkiln.views.hardware import GpuFacts
from worker.hardware.doctor.evidence import DeviceNode, Process, SharedMemory
from worker.hardware.facts.devices import find_product
from worker.hardware.facts.sysfs import list_numbers, read_hexadecimal

AMD = "0x1002"
DISPLAY_CLASSES = ("0x03", "0x12")
"""PCI classes of display controllers and of accelerators (MI300 is one). Source: pci.ids."""

CONTAINER_MARKS = (".dockerenv", "run/.containerenv")
WSL_LIBRARY_DIRS = ("usr/lib/wsl/lib", "opt/rocm/lib", "usr/lib", "usr/lib/x86_64-linux-gnu")
MES_FILES = {"MES": "mes_fw_version", "MEC": "mec_fw_version", "SMC": "smc_fw_version"}
_FIRMWARE = re.compile(r"^(\w+).*firmware version: (0x[0-9a-fA-F]+)", re.MULTILINE)


def look_at_node(path: Path, *, name: str, groups: Mapping[int, str]) -> DeviceNode | None:
    """Examine a device node and try to open it for reading and writing; None if it is absent.

    Args:
        path: Path to examine.
        name: Name of the node in reports.
        groups: Names of groups by id.
    """
    try:
        facts = path.stat()
    except OSError:
        return None
    return DeviceNode(
        path=name,
        uid=facts.st_uid,
        gid=facts.st_gid,
        mode=stat.S_IMODE(facts.st_mode),
        group=groups.get(facts.st_gid),
        error=_try_to_open(path),
    )


def find_render_nodes(root: Path, *, groups: Mapping[int, str]) -> tuple[DeviceNode, ...]:
    """Find the render nodes, in the order of their numbers."""
    folder = root / "dev/dri"
    found = (
        look_at_node(folder / f"renderD{n}", name=f"/dev/dri/renderD{n}", groups=groups)
        for n in list_numbers(str(folder), prefix="renderD")
    )
    return tuple(node for node in found if node is not None)


def find_pci_gpus(root: Path) -> tuple[str, ...]:
    """Find the PCI addresses of AMD's display controllers, with or without a driver."""
    return tuple(
        device.name
        for device in _list(root / "sys/bus/pci/devices")
        if read(device / "vendor") == AMD
        and (read(device / "class") or "").startswith(DISPLAY_CLASSES)
    )


def find_pci_targets(root: Path) -> tuple[str, ...]:
    """Find the architectures of AMD's display controllers by their PCI ids."""
    devices = (root / "sys/bus/pci/devices" / address for address in find_pci_gpus(root))
    ids = (read_hexadecimal(f"{device}/device") for device in devices)
    products = (find_product(number) for number in ids if number is not None)
    return tuple(dict.fromkeys(p.gfx for p in products if p is not None and p.gfx))


def read_system_names(root: Path) -> tuple[str, ...]:
    """Return the name of this distribution and of those that it is like."""
    text = read(root / "etc/os-release") or ""
    values = dict(re.findall(r'^(ID|ID_LIKE)="?([^"\n]*)"?$', text, re.MULTILINE))
    return (*values.get("ID", "").split(), *values.get("ID_LIKE", "").split())


def find_gpu_processes(root: Path) -> tuple[Process, ...]:
    """Find processes that have a GPU open for computing, from the driver's list."""
    numbers = list_numbers(str(root / "sys/class/kfd/kfd/proc"))
    return tuple(Process(pid, read(root / f"proc/{pid}/comm") or "a process") for pid in numbers)


def read_shared_memory(root: Path) -> SharedMemory | None:
    """Return the size and free space of `/dev/shm`."""
    try:
        facts = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return SharedMemory(facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize)


def read_firmware(root: Path, gpus: Iterable[GpuFacts]) -> dict[str, dict[str, str]]:
    """Read the versions of the microcode for each PCI address; only root may read all of them."""
    found: dict[str, dict[str, str]] = {}
    for gpu in gpus:
        if gpu.card is None or gpu.pci_address is None:
            continue
        device = root / f"sys/class/drm/card{gpu.card}/device/fw_version"
        versions = {n: text for n, file in MES_FILES.items() if (text := read(device / file))}
        for folder in (gpu.pci_address, str(gpu.card)):
            text = read(root / f"sys/kernel/debug/dri/{folder}/amdgpu_firmware_info") or ""
            versions |= dict(_FIRMWARE.findall(text))
        if versions:
            found[gpu.pci_address] = versions
    return found


def find_wsl_libraries(root: Path) -> tuple[str, ...]:
    """Find the libraries of WSL that ROCm needs."""
    return tuple(
        f"/{path.relative_to(root)}"
        for folder in WSL_LIBRARY_DIRS
        for name in ("libdxcore.so*", "librocdxg.so*")
        for path in sorted((root / folder).glob(name))
    )


def is_container(root: Path, environment: Mapping[str, str]) -> bool:
    """Return whether this process runs in a container."""
    is_marked = any((root / mark).exists() for mark in CONTAINER_MARKS)
    return is_marked or "KUBERNETES_SERVICE_HOST" in environment or "container" in environment


def has_iommu(root: Path) -> bool:
    """Return whether an IOMMU is enabled."""
    return any(_list(root / "sys/class/iommu")) or any(_list(root / "sys/kernel/iommu_groups"))


def find_file_system(path: Path, *, mounts: str) -> str | None:
    """Return the type of the file system that contains a path.

    Args:
        path: Absolute path.
        mounts: Text of `/proc/self/mountinfo`.
    """
    best, kind = "", None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].encode().decode("unicode_escape")
        if len(point) >= len(best) and path.is_relative_to(point):
            best, kind = point, after.split()[0]
    return kind


def read(path: Path) -> str | None:
    """Return a file's text without surrounding whitespace; None if it cannot be read."""
    try:
        return path.read_text(errors="replace").replace("\0", "").strip()
    except OSError:
        return None


def _try_to_open(path: Path) -> int:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno or -1
    return 0


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
