"""Links between the nodes of a topology, and the number of steps between nodes.

Source: torvalds/linux drivers/gpu/drm/amd/amdkfd/kfd_crat.h (types, flags, weights) and
kfd_topology.c (`p2p_links` are paths over several direct links, whose weights are added).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from redkiln.views.hardware import GpuLink, LinkKind
from worker.hardware.facts.sysfs import Read, list_numbers, read_pairs

KINDS: Mapping[int, LinkKind] = {1: "cpu_fabric", 2: "pcie", 11: "xgmi"}

XGMI_HOP_WEIGHT = 15
ENABLED, NO_ATOMICS_32, NO_ATOMICS_64 = 1 << 0, 1 << 2, 1 << 3
BYTES_PER_MEGABYTE = 1_000_000
LOST = -1


@dataclass(frozen=True)
class Link:
    """One link as the driver describes it; a direct one is in `io_links`.

    Attributes:
        to_node: Node at its end; -1 if its file could not be read.
    """

    to_node: int
    is_direct: bool
    properties: Mapping[str, int]


def read_links(node_dir: str, *, read: Read) -> list[Link]:
    """Read the links that start at a node."""
    links = []
    for kind in ("io_links", "p2p_links"):
        for number in list_numbers(f"{node_dir}/{kind}"):
            properties = read_pairs(f"{node_dir}/{kind}/{number}/properties", read=read)
            to_node = max(properties.get("node_to", LOST), LOST)
            links.append(Link(to_node, kind == "io_links", properties))
    return links


def describe_links(
    links: Mapping[int, Sequence[Link]],
    *,
    node: int,
    pci_addresses: Mapping[int, str | None],
) -> list[GpuLink]:
    """Describe the links of one GPU.

    Args:
        links: Links of every node, by its number.
        node: Number of the GPU's node.
        pci_addresses: PCI addresses of the nodes that are GPUs.
    """
    steps = _count_steps(links, start=node)
    return [
        GpuLink(
            to_node=link.to_node,
            to_pci_address=pci_addresses.get(link.to_node),
            kind=KINDS.get(link.properties.get("type", 0), "unknown"),
            hops=_count_direct_hops(link) if link.is_direct else steps.get(link.to_node),
            weight=link.properties.get("weight"),
            max_bandwidth_bytes_per_second=_bandwidth(link),
            has_atomics_32=_has(link, NO_ATOMICS_32),
            has_atomics_64=_has(link, NO_ATOMICS_64),
        )
        for link in links.get(node, ())
        if link.to_node != LOST
    ]


def _count_direct_hops(link: Link) -> int | None:
    if not {"type", "weight"} <= link.properties.keys():
        return None
    weight = link.properties.get("weight", 0)
    is_xgmi = KINDS.get(link.properties.get("type", 0)) == "xgmi"
    return weight // XGMI_HOP_WEIGHT if is_xgmi and weight >= XGMI_HOP_WEIGHT else 1


def _count_steps(links: Mapping[int, Sequence[Link]], *, start: int) -> dict[int, int]:
    """Count the direct links on the shortest path from a node to each reachable node.

    Nothing is counted if a link or a node could not be read: the shortest path may lead over it.
    """
    ends = {link.to_node for own in links.values() for link in own}
    if not ends <= links.keys():
        return {}
    steps, frontier = {start: 0}, {start}
    while frontier:
        beyond = {
            link.to_node for node in frontier for link in links.get(node, ()) if link.is_direct
        }
        frontier = beyond - steps.keys()
        steps |= dict.fromkeys(frontier, max(steps.values()) + 1)
    return steps


def _bandwidth(link: Link) -> int | None:
    megabytes = link.properties.get("max_bandwidth", 0)
    return megabytes * BYTES_PER_MEGABYTE if megabytes > 0 else None


def _has(link: Link, missing: int) -> bool | None:
    flags = link.properties.get("flags", 0)
    return not flags & missing if flags & ENABLED else None
