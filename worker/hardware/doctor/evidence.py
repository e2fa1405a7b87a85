"""The evidence that the doctor judges; None for anything that cannot be determined here."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

from redkiln.views.hardware import GpuFacts, GpuReading
from redkiln.views.self_test import SelfTestReport
from worker.hardware.health.death_book import SeenDeath
from worker.hardware.health.fault_book import SeenFault
from worker.hardware.override import ProbeResult
from worker.hardware.peers import PeerVerdict

RECENT = timedelta(days=7)
"""An older death says nothing about the machine's present state."""

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class DeviceNode:
    """A device node as `stat` shows it, and the result of opening it for reading and writing.

    Attributes:
        group: Name of `gid` here; None if it has none, as in most containers.
        error: errno of the attempt to open it; 0 if it opened.
    """

    path: str
    uid: int
    gid: int
    mode: int
    group: str | None = None
    error: int = 0

    @property
    def is_closed(self) -> bool:
        """Whether owner, group or mode denies access to this process."""
        return self.error == errno.EACCES

    @property
    def is_forbidden(self) -> bool:
        """Whether the container's device rules deny access to everyone."""
        return self.error == errno.EPERM


@dataclass(frozen=True)
class Torch:
    """What torch reports about itself, from a child that imported it.

    Attributes:
        arch_list: Targets that it has kernels for.
        num_devices: Number of GPUs that it can open; None if unknown.
        error: Why it could not be imported or queried.
        rocm: Release of ROCm that it was built with; HIP has another version.
    """

    version: str | None = None
    hip: str | None = None
    cuda: str | None = None
    arch_list: tuple[str, ...] = ()
    num_devices: int | None = None
    error: str | None = None
    rocm: str | None = None

    @property
    def rocm_release(self) -> str | None:
        """The release of ROCm; a torch before 2.13 reports only HIP's, which was the same."""
        return self.rocm or self.hip


@dataclass(frozen=True)
class KernelDatabase:
    """One SQLite file of MIOpen: `ok`, or SQLite's error."""

    path: str
    verdict: str = "ok"


@dataclass(frozen=True)
class KernelCache:
    """A folder of compiled kernels.

    Attributes:
        file_system: Type of its file system (`nfs4`, `overlay`, `tmpfs`, `ext4`).
        num_files: Number of files in it and below, at most a thousand.
    """

    path: str
    exists: bool
    is_writable: bool
    file_system: str | None = None
    num_files: int = 0
    databases: tuple[KernelDatabase, ...] = ()


@dataclass(frozen=True)
class SharedMemory:
    """`/dev/shm`."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Process:
    """A process that has a GPU open, according to the driver."""

    pid: int
    name: str


@dataclass(frozen=True)
class Evidence:
    """One machine, or one container on it, at one moment.

    Attributes:
        environment: Environment of this process.
        groups: Ids of the groups of this process.
        is_container: Whether it runs in a container.
        has_driver: Whether the amdgpu module is loaded.
        driver_version: Version of an amdgpu module that was installed separately from the kernel.
        pci_gpus: PCI addresses of AMD's display controllers on the bus, with or without a driver.
        kfd: The driver's node; None if it does not exist.
        render_nodes: The existing render nodes.
        gpus: GPUs in the driver's topology and among its cards.
        packages: Installed Python distributions, by normalised name.
        kernel_log: The kernel's messages about GPUs; None if the log is not readable.
        firmware: Version of each microcode by name, for each PCI address; empty if not readable.
        faults: Newest fault of each broken part of this worker.
        logs: Ends of the latest trainers' logs, by file name.
        self_tests: The latest report for each GPU.
        busy_gpus: Keys of the GPUs that attempts hold now; None if unknown.
        gpu_processes: Processes that have a GPU open.
        has_iommu: Whether IOMMU groups exist.
        wsl_libraries: Libraries of WSL that were found.
        peer_verdicts: Results of trials of the links between GPUs, the oldest first.
        gpu_readings: One reading of each GPU, in the order of `gpus`.
        pci_targets: Architectures of the cards on the bus, by their PCI id.
        system_names: Names of this distribution and of those that it is like (`ubuntu`, `debian`).
        python: Version of this Python, which is the worker's.
        override_probes: Stored verdicts on the known overrides of these GPUs, by their own target.
    """

    at: datetime
    hostname: str = "localhost"
    environment: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    uid: int = 0
    groups: frozenset[int] = frozenset()
    is_container: bool = False
    is_wsl: bool = False
    is_docker_desktop: bool = False
    kernel_release: str | None = None
    command_line: str | None = None
    has_driver: bool = False
    driver_version: str | None = None
    pci_gpus: tuple[str, ...] = ()
    kfd: DeviceNode | None = None
    dxg: DeviceNode | None = None
    render_nodes: tuple[DeviceNode, ...] = ()
    gpus: tuple[GpuFacts, ...] = ()
    packages: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    torch: Torch | None = None
    kernel_log: tuple[str, ...] | None = None
    firmware: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    caches: tuple[KernelCache, ...] = ()
    shared_memory: SharedMemory | None = None
    deaths: tuple[SeenDeath, ...] = ()
    faults: Mapping[str, SeenFault] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    self_tests: tuple[SelfTestReport, ...] = ()
    busy_gpus: frozenset[str] | None = None
    gpu_processes: tuple[Process, ...] = ()
    has_iommu: bool = False
    wsl_libraries: tuple[str, ...] = ()
    peer_verdicts: tuple[PeerVerdict, ...] = ()
    override_probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    gpu_readings: tuple[GpuReading, ...] = ()
    pci_targets: tuple[str, ...] = ()
    system_names: tuple[str, ...] = ()
    python: str | None = None

    @property
    def is_rocm(self) -> bool:
        """Whether the installed torch is built for AMD's GPUs."""
        return self.torch is not None and self.torch.hip is not None

    @property
    def has_amd_gpu(self) -> bool:
        """Whether there is any sign of an AMD GPU: on the bus, in the driver, or a node."""
        nodes = self.kfd or (self.is_wsl and self.dxg)
        return bool(self.gpus or self.pci_gpus or nodes)

    @property
    def usable_gpus(self) -> tuple[GpuFacts, ...]:
        """GPUs that are passed to this process and whose node can be opened."""
        opened = {node.path for node in self.render_nodes if not node.error}
        return tuple(
            gpu
            for gpu in self.gpus
            if gpu.is_accessible and (gpu.render_minor is None or render_path(gpu) in opened)
        )

    @property
    def discrete_gpus(self) -> tuple[GpuFacts, ...]:
        """GPUs that are not part of a processor."""
        return tuple(gpu for gpu in self.gpus if gpu.is_apu is False)

    @property
    def recent_deaths(self) -> tuple[SeenDeath, ...]:
        """Recorded deaths whose cause may still exist."""
        return tuple(death for death in self.deaths if self.at - death.at < RECENT)

    def deaths_of(self, row: int) -> tuple[SeenDeath, ...]:
        """Return the recent deaths that a row of the table explains."""
        return tuple(death for death in self.recent_deaths if death.row == row)


def render_path(gpu: GpuFacts) -> str:
    """Return the path of a GPU's render node."""
    return f"/dev/dri/renderD{gpu.render_minor}"


def name_of(gpu: GpuFacts) -> str:
    """Name a GPU in a sentence: `gfx1100 at 0000:03:00.0`."""
    what = gpu.gfx or gpu.name or "a GPU"
    return f"{what} at {gpu.pci_address}" if gpu.pci_address else what


def count_gpus(number: int) -> str:
    """Format a number of GPUs: `1 GPU`, `2 GPUs`."""
    return f"{number} GPU" if number == 1 else f"{number} GPUs"
