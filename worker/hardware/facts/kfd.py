"""The compute topology of the amdgpu driver: the GPUs, their shapes and their links.

A fact that the tree does not contain is None. A node whose files answer EPERM is a GPU that the
device cgroup hides from this process: it exists, but nothing else is known about it.

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
"""Where nodes are: below a topology, below a capture of one, or below their parent folders."""

FRAMEBUFFER_HEAPS = (1, 2)
"""`heap_type` of a GPU's own memory banks: visible to the CPU, or not."""

VERSIONS = range(10000, 1000000)
LOCATIONS = range(1, 2**32)
RENDER_MINORS = range(128, 2**20)
"""The kernel numbers render nodes from 128; 0 or all ones means none."""

PARTITION_SHIFT = 28
"""The kernel stores a partition's number in the highest bits of `location_id`."""

DIVISIBLE = ("gfx94", "gfx95", "gfx125")
"""Targets whose cards can be divided into partitions.

Source: AMD Instinct Partitioning Guide (MI300 series); gfx125 is assumed to do the same.
"""


@dataclass(frozen=True)
class Node:
    """One folder of `nodes`, unprocessed.

    Attributes:
        properties: Numbers by key; empty if the file cannot be read.
        is_denied: Whether its files answer EPERM.
        bank_bytes: Size of its own memory banks, or None.
    """

    number: int
    properties: Mapping[str, int]
    is_denied: bool = False
    gpu_id: int | None = None
    bank_bytes: int | None = None
    links: Sequence[Link] = field(default_factory=tuple)

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU, by its SIMDs, or by other properties of a truncated file."""
        simds = self.properties.get("simd_count")
        if self.is_denied or simds is not None:
            return self.is_denied or simds != 0
        values = (self.properties.get(key) for key in ("gfx_target_version", "device_id"))
        return bool(self.gpu_id) or any(values)


def read_topology(root: Path, *, read: Read = read_file) -> list[GpuFacts]:
    """Read the GPUs of a topology, in the order of their nodes; empty without a topology.

    Args:
        root: `/sys/class/kfd/kfd/topology`, its `nodes`, a captured copy, or a parent folder.
        read: Function that reads a file.
    """
    nodes = read_nodes(root, read=read)
    gpus = [node for node in nodes if node.is_gpu]
    partitions = _number_partitions(gpus) | _number_lone_partitions(gpus)
    by_number = {node.number: _describe(node, partitions.get(node.number)) for node in gpus}
    addresses = {number: facts.pci_address for number, facts in by_number.items()}
    links = {node.number: node.links for node in nodes if not node.is_denied}
    return _name_uuids(
        facts.model_copy(
            update={"links": describe_links(links, node=number, pci_addresses=addresses)}
        )
        for number, facts in by_number.items()
    )


def read_nodes(root: Path, *, read: Read = read_file) -> list[Node]:
    """Read all nodes of a topology, including those of CPUs."""
    directory = find_nodes_dir(root)
    if directory is None:
        return []
    return [
        _read_node(f"{directory}/{number}", number=number, read=read)
        for number in list_numbers(str(directory))
    ]


def find_nodes_dir(root: Path) -> Path | None:
    """Find the folder of numbered nodes in a tree, or None."""
    for inner in NODES_DIRS:
        numbers = list_numbers(str(root / inner))
        if numbers and (inner or root.name == "nodes" or _is_node(root / str(numbers[0]))):
            return root / inner
    return None


def name_gfx(version: int) -> str | None:
    """Return the LLVM target of a `gfx_target_version`: 90010 is gfx90a, 120001 gfx1201.

    Minor number and stepping are one digit each; None for a version in which they are larger.
    """
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}" if max(minor, stepping) < 16 else None


def is_divisible(gfx: str | None) -> bool:
    """Return whether cards of a target can be divided into partitions (DPX, CPX)."""
    return gfx is not None and gfx.startswith(DIVISIBLE)


def name_pci_address(location_id: int, *, domain: int) -> str:
    """Return the PCI address of a `location_id`: 34304 is 0000:86:00.0."""
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
    properties = node.properties
    unique_id = properties.get("unique_id", -1)
    cus = _divide(_positive(properties, "simd_count"), _positive(properties, "simd_per_cu"))
    wave = properties.get("wave_front_size")
    version = _within(properties, "gfx_target_version", VERSIONS)
    return GpuFacts(
        node=node.number,
        gfx=name_gfx(version) if version else None,
        cu_count=cus,
        wgp_count=cus // 2 if cus and wave == 32 and _has_paired_units(version) else None,
        wave_size=wave if wave in (32, 64) else None,
        vram_bytes=node.bank_bytes or _positive(properties, "local_mem_size"),
        pci_address=_find_address(properties, is_partition=partition is not None),
        vendor_id=_positive(properties, "vendor_id"),
        device_id=_positive(properties, "device_id"),
        unique_id=unique_id if unique_id >= 0 else None,
        render_minor=_within(properties, "drm_render_minor", RENDER_MINORS),
        num_xcc=_positive(properties, "num_xcc"),
        partition=partition,
        hive_id=_positive(properties, "hive_id"),
        max_clock_mhz=_positive(properties, "max_engine_clk_fcompute"),
    )


def _has_paired_units(version: int | None) -> bool:
    """Return whether compute units of a target with waves of 32 work in pairs: not on gfx125x.

    Source: llvm/llvm-project#153680 (2025-08-14): gfx1250 has only the mode of single units.
    """
    return version is None or version // 100 != 1205


def _positive(properties: Mapping[str, int], key: str) -> int | None:
    value = properties.get(key)
    return value if value is not None and value > 0 else None


def _within(properties: Mapping[str, int], key: str, allowed: range) -> int | None:
    value = properties.get(key)
    # Test for None first: for anything but an integer, `in` would search the range linearly.
    return value if value is not None and value in allowed else None


def _divide(total: int | None, each: int | None) -> int | None:
    return total // each if total and each and total % each == 0 else None


def _find_address(properties: Mapping[str, int], *, is_partition: bool) -> str | None:
    location = _within(properties, "location_id", LOCATIONS)
    if location is None:
        return None
    # Kernels without `domain` have only the first. A partition may use the function as its number.
    address = location & (0xFFF8 if is_partition else 0xFFFF)
    return name_pci_address(address, domain=_within(properties, "domain", LOCATIONS) or 0)


def _number_partitions(gpus: Sequence[Node]) -> dict[int, int]:
    """Number the partitions of each card that consists of several nodes, by node."""
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


def _number_lone_partitions(gpus: Sequence[Node]) -> dict[int, int]:
    """Number the partitions whose siblings this process may not read.

    No whole card that can be divided has a single XCC, and none has a function other than 0.
    """
    if not any(node.is_denied for node in gpus):
        return {}
    found = {}
    for node in gpus:
        gfx = name_gfx(node.properties.get("gfx_target_version", 0))
        number, _ = _partition_order(node)
        if is_divisible(gfx) and (number or node.properties.get("num_xcc") == 1):
            found[node.number] = number
    return found


def _partition_order(node: Node) -> tuple[int, int]:
    location = node.properties.get("location_id", 0)
    return (location >> PARTITION_SHIFT or location & 7, node.number)


def _name_uuids(gpus: Iterable[GpuFacts]) -> list[GpuFacts]:
    """Fill in `uuid` if a unique id names exactly one GPU of this host, and not a partition."""
    known = list(gpus)
    ids = [facts.unique_id for facts in known]
    return [
        facts.model_copy(update={"uuid": f"GPU-{facts.unique_id:016x}"})
        if facts.unique_id and ids.count(facts.unique_id) == 1 and facts.partition is None
        else facts
        for facts in known
    ]
