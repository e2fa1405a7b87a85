"""Collects the evidence, from files below given folders and from the caller."""

import grp
import importlib.metadata
import json
import os
import platform
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from pydantic import ValidationError

from redkiln.views.hardware import GpuFacts
from redkiln.views.self_test import SelfTestReport
from worker.hardware.choose import gpu_key
from worker.hardware.doctor import machine
from worker.hardware.doctor.evidence import Evidence, Torch
from worker.hardware.doctor.kernel_caches import look_at_caches
from worker.hardware.doctor.machine import read
from worker.hardware.doctor.table.readings import read_gpus
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.kernel_log import read_kernel_log
from worker.hardware.facts.targets import find_target
from worker.hardware.health.death_book import DeathBook
from worker.hardware.health.fault_book import FaultBook
from worker.hardware.leases import LeaseFolder
from worker.hardware.override import ProbeKey, ProbeResult, find_result
from worker.hardware.peers import load_verdicts

MAX_LOGS = 8
PEERS_DIR = Path("cache/trainer/peers")
"""Folder, below the worker's, in which jobs on several GPUs keep the results of their trials."""
MAX_LOG_BYTES = 16384
INVENTORY_SECONDS = 300.0
"""A cold import of a ROCm build from a slow disk takes over a minute."""


@dataclass(frozen=True)
class SystemPaths:
    """Where to look for evidence.

    Attributes:
        root: Folder that contains `/dev`, `/sys` and `/proc`.
        topology_dir: The driver's topology, if it is not below the root.
        drm_dir: Folder of the cards, if it is not below the root.
        worker_dir: Folder with the logs and deaths of this worker.
        cache_dirs: Folders of compiled kernels.
        lock_dir: Folder of GPU leases; None: users of the GPUs are unknown.
        self_test_dir: Folder of self-test reports.
    """

    root: Path = Path("/")
    topology_dir: Path | None = None
    drm_dir: Path | None = None
    worker_dir: Path | None = None
    cache_dirs: Sequence[Path] = field(default_factory=tuple)
    lock_dir: Path | None = None
    self_test_dir: Path | None = None

    @property
    def topology(self) -> Path:
        """The driver's topology."""
        return self.topology_dir or self.root / "sys/class/kfd/kfd/topology"

    @property
    def drm(self) -> Path:
        """Folder of the cards."""
        return self.drm_dir or self.root / "sys/class/drm"


def gather(
    paths: SystemPaths, *, environment: Mapping[str, str], torch: Torch | None = None
) -> Evidence:
    """Examine this machine, or the files of an artificial one.

    Args:
        paths: Folders to read.
        environment: Environment of this process.
        torch: Torch's own facts; see `ask_torch`.
    """
    root = paths.root
    gpus = _discover(paths)
    processes = machine.find_gpu_processes(root)
    groups = {entry.gr_gid: entry.gr_name for entry in grp.getgrall()}
    version = read(root / "proc/version") or ""
    mounts = read(root / "proc/self/mountinfo") or ""
    book = DeathBook(paths.worker_dir).load() if paths.worker_dir else []
    tails = {f"{death.attempt_id} (dead)": death.tail for death in book if death.tail}
    return Evidence(
        at=datetime.now(UTC),
        hostname=socket.gethostname(),
        environment=dict(environment),
        uid=os.getuid(),
        groups=frozenset({os.getgid(), *os.getgroups()}),
        is_container=machine.is_container(root, environment),
        is_wsl="microsoft" in version.lower(),
        is_docker_desktop="linuxkit" in version.lower(),
        kernel_release=read(root / "proc/sys/kernel/osrelease"),
        command_line=read(root / "proc/cmdline"),
        has_driver=(root / "sys/module/amdgpu").is_dir(),
        driver_version=read(root / "sys/module/amdgpu/version"),
        pci_gpus=machine.find_pci_gpus(root),
        kfd=machine.look_at_node(root / "dev/kfd", name="/dev/kfd", groups=groups),
        dxg=machine.look_at_node(root / "dev/dxg", name="/dev/dxg", groups=groups),
        render_nodes=machine.find_render_nodes(root, groups=groups),
        gpus=tuple(gpus),
        packages=read_packages(),
        torch=torch,
        kernel_log=read_kernel_log(root / "dev/kmsg"),
        firmware=machine.read_firmware(root, gpus),
        caches=look_at_caches(paths.cache_dirs, mounts=mounts),
        shared_memory=machine.read_shared_memory(root),
        deaths=tuple(book),
        faults=FaultBook(paths.worker_dir).load() if paths.worker_dir else {},
        logs={**tails, **_read_logs(paths.worker_dir)},
        self_tests=tuple(_load_self_tests(paths.self_test_dir, torch)),
        busy_gpus=_find_busy(paths.lock_dir, gpus),
        gpu_processes=processes,
        gpu_readings=tuple(
            read_gpus(
                gpus,
                root=root,
                topology_dir=paths.topology,
                drm_dir=paths.drm,
                processes=processes,
            )
        ),
        pci_targets=machine.find_pci_targets(root),
        python=platform.python_version(),
        system_names=machine.read_system_names(root),
        has_iommu=machine.has_iommu(root),
        wsl_libraries=machine.find_wsl_libraries(root),
        peer_verdicts=tuple(load_verdicts(paths.worker_dir and paths.worker_dir / PEERS_DIR)),
        override_probes=_load_probes(paths.self_test_dir, gpus, torch),
    )


def ask_torch(command: Sequence[str], *, environment: Mapping[str, str]) -> Torch:
    """Ask torch for its facts in a short-lived child, which may open HIP.

    Args:
        command: Command that prints the same JSON as `worker.trainer.inventory`.
        environment: Environment of the child.
    """
    try:
        done = subprocess.run(
            list(command),
            env=dict(environment),
            capture_output=True,
            timeout=INVENTORY_SECONDS,
            check=False,
            text=True,
        )
        printed = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Torch(error=f"{' '.join(command)}: {error}")
    if printed is None:
        words = done.stderr.strip().splitlines()
        return Torch(error=words[-1] if words else f"it exited with status {done.returncode}")
    return read_torch(printed)


def read_torch(inventory: Mapping[str, object]) -> Torch:
    """Read torch's facts from the output of the inventory."""
    arches, gpus = inventory.get("arch_list"), inventory.get("gpus")
    return Torch(
        version=_text(inventory.get("torch_version")),
        hip=_text(inventory.get("hip_version")),
        rocm=_text(inventory.get("rocm_version")),
        cuda=_text(inventory.get("cuda_version")),
        arch_list=tuple(map(str, arches)) if isinstance(arches, list) else (),
        num_devices=len(gpus) if isinstance(gpus, list) else None,
        error=_text(inventory.get("error")),
    )


def read_packages() -> dict[str, str]:
    """Return installed distributions by normalised name."""
    return {
        re.sub(r"[-_.]+", "-", found.name).lower(): found.version
        for found in importlib.metadata.distributions()
        if found.name  # a partly removed distribution has no name
    }


def versions_of(evidence: Evidence) -> dict[str, str | None]:
    """Return the versions to include in a report."""
    torch = evidence.torch or Torch()
    driver = evidence.driver_version
    return {
        "python": evidence.python,
        "kernel": evidence.kernel_release,
        "amdgpu": driver or ("of the kernel" if evidence.has_driver else None),
        "torch": torch.version,
        "rocm": torch.rocm_release,
        "cuda": torch.cuda,
    }


def _discover(paths: SystemPaths) -> list[GpuFacts]:
    return discover_gpus(topology_dir=paths.topology, drm_dir=paths.drm, with_telemetry=True)


def _read_logs(worker_dir: Path | None) -> dict[str, str]:
    """Read the ends of the latest trainers' logs that still exist."""
    if worker_dir is None:
        return {}
    found = chain(worker_dir.glob("jobs/*/trainer.log"), worker_dir.glob("*spare-*.log"))
    newest = sorted(found, key=_modified_at)[-MAX_LOGS:]
    return {str(path.relative_to(worker_dir)): _read_tail(path) for path in newest}


def _read_tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - MAX_LOG_BYTES))
            return file.read(MAX_LOG_BYTES).decode(errors="replace")
    except OSError:
        return ""


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _load_self_tests(folder: Path | None, torch: Torch | None) -> list[SelfTestReport]:
    """Load the latest report of each GPU, of the installed torch if its version is known."""
    newest: dict[str, SelfTestReport] = {}
    for path in sorted(folder.glob("selftest-*.json"), key=_modified_at) if folder else ():
        try:
            report = SelfTestReport.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):
            continue  # the next test writes it again
        version = report.versions.get("torch")
        if torch is None or version in (None, torch.version):
            newest[report.pci_address or report.device] = report
    return list(newest.values())


def _load_probes(
    folder: Path | None, gpus: Sequence[GpuFacts], torch: Torch | None
) -> dict[str, ProbeResult]:
    """Load the verdicts on the known overrides of these GPUs with the installed torch."""
    if folder is None or torch is None:
        return {}
    targets = (find_target(gpu.gfx) for gpu in gpus if gpu.gfx)
    keys = (
        ProbeKey(
            gfx=row.gfx, value=row.override.value, torch=torch.version, rocm=torch.rocm_release
        )
        for row in targets
        if row is not None and row.override.value is not None
    )
    found = ((key.gfx, find_result(folder, key, now=datetime.now(UTC))) for key in keys)
    return {gfx: result for gfx, result in found if result is not None}


def _find_busy(lock_dir: Path | None, gpus: Sequence[GpuFacts]) -> frozenset[str] | None:
    if lock_dir is None or not lock_dir.is_dir():
        return None
    folder = LeaseFolder(lock_dir)
    try:
        keys = map(gpu_key, gpus)
        return frozenset(key for key in keys if folder.find_holder(key) is not None)
    except OSError:
        return None
    finally:
        folder.close()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
