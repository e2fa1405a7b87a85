"""What the doctor judges: everything as it was found, None where it cannot be had from here."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

from redkiln.views.hardware import GpuFacts, SelfTestReport
from worker.hardware.health.death_book import SeenDeath
from worker.hardware.peers import PeerVerdict

RECENT = timedelta(days=7)
"""A death that is older says nothing of the machine as it is."""

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class DeviceNode:
    """A device node as `stat` shows it, and what opening it for reading and writing answered.

    Attributes:
        group: name of `gid` here; None where it has none, as in most containers.
        error: errno of the attempt to open it; 0 when it opened.
    """

    path: str
    uid: int
    gid: int
    mode: int
    group: str | None = None
    error: int = 0

    @property
    def is_closed(self) -> bool:
        """Whether the owner, the group or the mode keeps us out."""
        return self.error == errno.EACCES

    @property
    def is_forbidden(self) -> bool:
        """Whether the container's device rules keep us out, whoever we are."""
        return self.error == errno.EPERM


@dataclass(frozen=True)
class Torch:
    """What torch says of itself, from a child that imported it.

    Attributes:
        arch_list: targets that it has kernels for.
        num_devices: GPUs that it can open; None when it was not asked.
        error: why it could not be imported or asked.
    """

    version: str | None = None
    hip: str | None = None
    cuda: str | None = None
    arch_list: tuple[str, ...] = ()
    num_devices: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class KernelDatabase:
    """One SQLite file of MIOpen's: `ok`, or what SQLite said."""

    path: str
    verdict: str = "ok"


@dataclass(frozen=True)
class KernelCache:
    """The folder of compiled kernels.

    Attributes:
        file_system: type of the one that it lies on (`nfs4`, `overlay`, `tmpfs`, `ext4`).
        num_files: in it and below; counting stops at a thousand.
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
    """A process that has a GPU open, by the driver's list."""

    pid: int
    name: str


@dataclass(frozen=True)
class Evidence:
    """One machine, or one container on it, at one moment.

    Attributes:
        environment: of this process.
        groups: numbers of the groups that this process is in.
        is_container: it runs in one.
        has_driver: the amdgpu module is loaded.
        driver_version: of an amdgpu module that was installed apart from the kernel.
        pci_gpus: PCI addresses of AMD's display controllers on the bus, driver or not.
        kfd: the driver's node; None when it is absent.
        render_nodes: those present.
        gpus: by the driver's topology, and by their cards.
        packages: installed Python distributions, by normalised name.
        kernel_log: lines on GPUs; None where the log may not be read.
        firmware: version of each ucode by name, per PCI address; empty where it may not be read.
        logs: tails of the last trainers' logs, by file name.
        self_tests: the newest of each GPU.
        busy_gpus: keys of the GPUs that attempts hold now; None when that is not known.
        gpu_processes: those that have a GPU open.
        has_iommu: IOMMU groups exist.
        wsl_libraries: those of WSL's that were found.
        peer_verdicts: what trials of the links between GPUs said, the oldest first.
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
    logs: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    self_tests: tuple[SelfTestReport, ...] = ()
    busy_gpus: frozenset[str] | None = None
    gpu_processes: tuple[Process, ...] = ()
    has_iommu: bool = False
    wsl_libraries: tuple[str, ...] = ()
    peer_verdicts: tuple[PeerVerdict, ...] = ()

    @property
    def is_rocm(self) -> bool:
        """Whether the installed torch is built for AMD's GPUs."""
        return self.torch is not None and self.torch.hip is not None

    @property
    def has_amd_gpu(self) -> bool:
        """Whether anything tells of an AMD GPU: the bus, the driver, or a node."""
        nodes = self.kfd or (self.is_wsl and self.dxg)
        return bool(self.gpus or self.pci_gpus or nodes)

    @property
    def usable_gpus(self) -> tuple[GpuFacts, ...]:
        """GPUs that are passed to this process and whose node opens."""
        opened = {node.path for node in self.render_nodes if not node.error}
        return tuple(
            gpu
            for gpu in self.gpus
            if gpu.is_accessible and (gpu.render_minor is None or render_path(gpu) in opened)
        )

    @property
    def discrete_gpus(self) -> tuple[GpuFacts, ...]:
        """Those that are not part of a processor."""
        return tuple(gpu for gpu in self.gpus if gpu.is_apu is False)

    @property
    def recent_deaths(self) -> tuple[SeenDeath, ...]:
        """The recorded deaths that may still have their cause."""
        return tuple(death for death in self.deaths if self.at - death.at < RECENT)

    def deaths_of(self, row: int) -> tuple[SeenDeath, ...]:
        """The recent deaths that a row of the table explains."""
        return tuple(death for death in self.recent_deaths if death.row == row)


def render_path(gpu: GpuFacts) -> str:
    """The render node of a GPU."""
    return f"/dev/dri/renderD{gpu.render_minor}"


def name_of(gpu: GpuFacts) -> str:
    """A GPU in a sentence: `gfx1100 at 0000:03:00.0`."""
    what = gpu.gfx or gpu.name or "a GPU"
    return f"{what} at {gpu.pci_address}" if gpu.pci_address else what


def count_gpus(number: int) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{number} GPU" if number == 1 else f"{number} GPUs"
