"""The compute topology of the amdgpu driver: which GPUs, of what shape, linked how.

Facts that the tree does not hold are None. A node whose files answer EPERM is a GPU that the
device cgroup keeps from this process: it exists, and nothing else is known of it.

Source: torvalds/linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c, kfd_topology.h, kfd_crat.h.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redkiln.views.hardware import GpuFacts
from worker.hardware.facts.links import Link, describe_links, read_links
from worker.hardware.facts.sysfs import (
    Read,
    decode,
    list_numbers,
    parse_pairs,
    read_file,
    read_integer,
    read_pairs,
)

TOPOLOGY_DIR = Path("/sys/class/kfd/kfd/topology")

NODES_DIRS = ("", "nodes", "topology/nodes", "kfd/topology/nodes", "kfd/kfd/topology/nodes")
"""Where nodes lie below a topology, below a capture of one, and below what is above it."""

FRAMEBUFFER_HEAPS = (1, 2)
"""`heap_type` of memory banks that are the GPU's own: visible to the CPU, or not."""

VERSIONS = range(10000, 1000000)
LOCATIONS = range(1, 2**32)
RENDER_MINORS = range(128, 2**20)
"""The kernel counts render nodes from 128 on; 0 or all ones is none."""

PARTITION_SHIFT = 28
"""The kernel puts the number of a partition into the highest bits of `location_id`."""


@dataclass(frozen=True)
class Node:
    """One folder of `nodes`, as it is.

    Attributes:
        properties: numbers by key; empty when the file cannot be read.
        is_denied: its files answer EPERM.
        bank_bytes: what its memory banks hold; None when there is none of its own.
    """

    number: int
    properties: Mapping[str, int]
    is_denied: bool = False
    gpu_id: int | None = None
    bank_bytes: int | None = None
    links: Sequence[Link] = field(default_factory=tuple)

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU, by its SIMDs, or by what else a cut file tells."""
        simds = self.properties.get("simd_count")
        if self.is_denied or simds is not None:
            return self.is_denied or simds != 0
        told = (self.properties.get(key) for key in ("gfx_target_version", "device_id"))
        return bool(self.gpu_id) or any(told)


def read_topology(root: Path, *, read: Read = read_file) -> list[GpuFacts]:
    """The GPUs of a topology, in the order of their nodes; empty where there is no topology.

    Args:
        root: `/sys/class/kfd/kfd/topology`, its `nodes`, a captured copy, or a folder above one.
        read: how files are read.
    """
    nodes = read_nodes(root, read=read)
    gpus = [node for node in nodes if node.is_gpu]
    partitions = _number_partitions(gpus)
    by_number = {node.number: _describe(node, partitions.get(node.number)) for node in gpus}
    addresses = {number: facts.pci_address for number, facts in by_number.items()}
    links = {node.number: node.links for node in nodes}
    return _name_uuids(
        facts.model_copy(
            update={"links": describe_links(links, node=number, pci_addresses=addresses)}
        )
        for number, facts in by_number.items()
    )


def read_nodes(root: Path, *, read: Read = read_file) -> list[Node]:
    """All nodes of a topology, those of CPUs too."""
    directory = find_nodes_dir(root)
    if directory is None:
        return []
    return [
        _read_node(f"{directory}/{number}", number=number, read=read)
        for number in list_numbers(str(directory))
    ]


def find_nodes_dir(root: Path) -> Path | None:
    """The folder of numbered nodes in a tree; None when it has none."""
    for inner in NODES_DIRS:
        numbers = list_numbers(str(root / inner))
        if numbers and (inner or root.name == "nodes" or _is_node(root / str(numbers[0]))):
            return root / inner
    return None


def name_gfx(version: int) -> str | None:
    """The LLVM target of a `gfx_target_version`: 90010 is gfx90a, 120001 gfx1201.

    Minor number and stepping are one digit each; None of a version in which they are not.
    """
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}" if max(minor, stepping) < 16 else None


def name_pci_address(location_id: int, *, domain: int) -> str:
    """The PCI address of a `location_id`: 34304 is 0000:86:00.0."""
    bus, device, function = location_id >> 8 & 0xFF, location_id >> 3 & 0x1F, location_id & 7
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def _is_node(directory: Path) -> bool:
    try:
        names = {entry.name for entry in directory.iterdir()}
    except OSError:
        return False
    return not names.isdisjoint({"properties", "gpu_id"})


def _read_node(directory: str, *, number: int, read: Read) -> Node:
    try:
        properties = parse_pairs(decode(read(f"{directory}/properties")))
    except PermissionError:
        return Node(number, {}, is_denied=True)
    except OSError:
        properties = {}
    return Node(
        number,
        properties,
        gpu_id=read_integer(f"{directory}/gpu_id", read=read),
        bank_bytes=_read_banks(f"{directory}/mem_banks", read=read),
        links=read_links(directory, read=read),
    )


def _read_banks(directory: str, *, read: Read) -> int | None:
    banks = [
        read_pairs(f"{directory}/{number}/properties", read=read)
        for number in list_numbers(directory)
    ]
    own = [bank for bank in banks if bank.get("heap_type") in FRAMEBUFFER_HEAPS]
    return sum(max(bank.get("size_in_bytes", 0), 0) for bank in own) or None


def _describe(node: Node, partition: int | None) -> GpuFacts:
    if node.is_denied:
        return GpuFacts(node=node.number, is_accessible=False)
    told = node.properties
    unique_id = told.get("unique_id", -1)
    cus = _divide(_positive(told, "simd_count"), _positive(told, "simd_per_cu"))
    wave = told.get("wave_front_size")
    version = _within(told, "gfx_target_version", VERSIONS)
    return GpuFacts(
        node=node.number,
        gfx=name_gfx(version) if version else None,
        cu_count=cus,
        # Only RDNA joins compute units in pairs, and only RDNA has waves of 32.
        wgp_count=cus // 2 if cus and wave == 32 else None,
        wave_size=wave if wave in (32, 64) else None,
        vram_bytes=node.bank_bytes or _positive(told, "local_mem_size"),
        pci_address=_find_address(told, is_partition=partition is not None),
        vendor_id=_positive(told, "vendor_id"),
        device_id=_positive(told, "device_id"),
        unique_id=unique_id if unique_id >= 0 else None,
        render_minor=_within(told, "drm_render_minor", RENDER_MINORS),
        num_xcc=_positive(told, "num_xcc"),
        partition=partition,
        hive_id=_positive(told, "hive_id"),
        max_clock_mhz=_positive(told, "max_engine_clk_fcompute"),
    )


def _positive(told: Mapping[str, int], key: str) -> int | None:
    value = told.get(key)
    return value if value is not None and value > 0 else None


def _within(told: Mapping[str, int], key: str, allowed: range) -> int | None:
    value = told.get(key)
    # None is no integer, so that a range would be gone through one by one.
    return value if value is not None and value in allowed else None


def _divide(total: int | None, each: int | None) -> int | None:
    return total // each if total and each and total % each == 0 else None


def _find_address(told: Mapping[str, int], *, is_partition: bool) -> str | None:
    location = _within(told, "location_id", LOCATIONS)
    if location is None:
        return None
    # Kernels without `domain` knew only the first. In partitions the function may be their number.
    address = location & (0xFFF8 if is_partition else 0xFFFF)
    return name_pci_address(address, domain=_within(told, "domain", LOCATIONS) or 0)


def _number_partitions(gpus: Sequence[Node]) -> dict[int, int]:
    """Places among the partitions of a card, by node, where several nodes are one card."""
    cards: dict[tuple[int | None, ...], list[Node]] = defaultdict(list)
    for node in gpus:
        location = _within(node.properties, "location_id", LOCATIONS)
        if location is not None:
            card = (node.properties.get("domain"), location & 0xFFF8)
            cards[*card, node.properties.get("unique_id")].append(node)
    return {
        node.number: place
        for nodes in cards.values()
        if len(nodes) > 1
        for place, node in enumerate(sorted(nodes, key=_partition_order))
    }


def _partition_order(node: Node) -> tuple[int, int]:
    location = node.properties.get("location_id", 0)
    return (location >> PARTITION_SHIFT or location & 7, node.number)


def _name_uuids(gpus: Iterable[GpuFacts]) -> list[GpuFacts]:
    """Fill in `uuid` where a unique id names one GPU of this host alone."""
    known = list(gpus)
    ids = [facts.unique_id for facts in known]
    return [
        facts.model_copy(update={"uuid": f"GPU-{facts.unique_id:016x}"})
        if facts.unique_id and ids.count(facts.unique_id) == 1
        else facts
        for facts in known
    ]
