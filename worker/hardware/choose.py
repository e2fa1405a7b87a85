"""Which GPUs are trained on, and which of the free ones a job gets: decisions from facts alone."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from redkiln.views.hardware import GpuExclusion, GpuFacts, GpuLink
from worker.hardware.facts.targets import find_target

XGMI_HOP_COST = 1
PCIE_COST = 16
SAME_CPU_COST = 24
UNKNOWN_COST = 32
"""What a pair of GPUs costs by its best path: any number of xGMI hops that a host has is faster
than PCIe, over which GPUs that copy to each other are better off than those that cannot."""


Costs = Mapping[frozenset[str], int]


@dataclass(frozen=True)
class Choice:
    """GPUs for one job.

    Attributes:
        reason: why these, for people.
    """

    keys: tuple[str, ...]
    reason: str


def gpu_key(facts: GpuFacts) -> str:
    """What a GPU's lease is named by: its PCI address, with the partition if it is one."""
    place = facts.pci_address or f"node-{facts.node}"
    return place if facts.partition is None else f"{place}-p{facts.partition}"


def parse_wanted(setting: str) -> frozenset[str]:
    """The entries of REDKILN_GPUS: `auto`, `all`, or what a GPU can be named by."""
    entries = frozenset(entry.strip().lower() for entry in setting.split(",") if entry.strip())
    return entries or frozenset({"auto"})


def find_exclusions(gpus: Sequence[GpuFacts], *, wanted: str) -> dict[str, GpuExclusion]:
    """Why GPUs of this host are left alone, by key; the others can be used.

    An APU is a first-class GPU where no discrete one can be used, and left alone where one can,
    unless the setting asks for it.

    Args:
        gpus: all that the driver tells of.
        wanted: the setting REDKILN_GPUS.
    """
    entries = parse_wanted(wanted)
    excluded = {gpu_key(gpu): why for gpu in gpus if (why := _find_fault(gpu, entries))}
    usable = [gpu for gpu in gpus if gpu_key(gpu) not in excluded]
    discrete = [gpu for gpu in usable if not gpu.is_apu]
    if entries == {"auto"} and discrete:
        beside = gpu_key(discrete[0])
        excluded |= {gpu_key(gpu): _exclude_apu(gpu, beside=beside) for gpu in usable if gpu.is_apu}
    return excluded


def choose_gpus(
    candidates: Mapping[str, GpuFacts], count: int, *, with_display: Collection[str] = ()
) -> Choice | None:
    """The best of the free GPUs for a job; None when there are too few.

    Args:
        candidates: free GPUs of one architecture by key, in the order in which they are preferred.
        count: how many the job needs.
        with_display: keys of those that drive a screen; they are taken last.
    """
    if len(candidates) < count:
        return None
    ordered = sorted(candidates, key=lambda key: key in with_display)
    if count == 1:
        return Choice((ordered[0],), "")
    costs = {
        frozenset((one, other)): _cost(candidates[one], candidates[other])
        for one, other in itertools.combinations(ordered, 2)
    }
    groups = [_grow(start, ordered, count, costs) for start in ordered]
    best = min(groups, key=lambda group: _spread(group, costs))
    keys = tuple(sorted(best))
    worst, _ = _spread(keys, costs)
    return Choice(keys, _explain(keys, worst, num_free=len(candidates)))


def _find_fault(gpu: GpuFacts, entries: frozenset[str]) -> GpuExclusion | None:
    for rule in _RULES:
        if why := rule(gpu, entries):
            return why
    return None


def _is_hidden(gpu: GpuFacts, _: frozenset[str]) -> GpuExclusion | None:
    if gpu.is_accessible:
        return None
    if gpu.node is None:
        text = "The driver shows its card, but does not offer it for computing (no KFD node)."
        return GpuExclusion(code="not_offered", message=text)
    node = "renderD*" if gpu.render_minor is None else f"renderD{gpu.render_minor}"
    return GpuExclusion(
        code="inaccessible",
        message=f"It exists, but was not passed to this worker; pass /dev/dri/{node} and /dev/kfd "
        "to the container, or give this user the group that owns them.",
    )


def _is_unwanted(gpu: GpuFacts, entries: frozenset[str]) -> GpuExclusion | None:
    if entries & {"auto", "all"} or entries & _names(gpu):
        return None
    named = ", ".join(sorted(entries))
    return GpuExclusion(code="not_wanted", message=f"REDKILN_GPUS names others: {named}.")


def _is_defective(gpu: GpuFacts, _: frozenset[str]) -> GpuExclusion | None:
    target = find_target(gpu.gfx) if gpu.gfx else None
    defect = target.blocking if target else None
    if defect is None:
        return None
    text = f"{gpu.gfx}: {defect.text} {defect.fix} (source: {defect.source})"
    return GpuExclusion(code=defect.code, message=" ".join(text.split()))


_RULES: tuple[Callable[[GpuFacts, frozenset[str]], GpuExclusion | None], ...] = (
    _is_hidden,
    _is_defective,
    _is_unwanted,
)


def _names(gpu: GpuFacts) -> set[str]:
    names = {gpu_key(gpu), gpu.pci_address, gpu.uuid}
    return {name.lower() for name in names if name}


def _exclude_apu(gpu: GpuFacts, *, beside: str) -> GpuExclusion:
    return GpuExclusion(
        code="apu_beside_discrete",
        message=f"It shares the host's memory, and {beside} does not; REDKILN_GPUS=all, or its "
        f"address {gpu_key(gpu)} there, puts it to use.",
    )


def _grow(start: str, keys: Sequence[str], count: int, costs: Costs) -> list[str]:
    """From one GPU on, always the one that is joined best to those chosen already."""
    chosen, left = [start], [key for key in keys if key != start]
    while len(chosen) < count:
        nearest = min(left, key=lambda key: sum(costs[frozenset((key, one))] for one in chosen))
        chosen.append(nearest)
        left.remove(nearest)
    return chosen


def _spread(keys: Sequence[str], costs: Costs) -> tuple[int, int]:
    """The worst pair counts first: a collective is as fast as its slowest link."""
    pairs = [costs[frozenset(pair)] for pair in itertools.combinations(keys, 2)]
    return max(pairs), sum(pairs)


def _cost(one: GpuFacts, other: GpuFacts) -> int:
    between = [_link_cost(link) for link in _links_between(one, other)]
    shares_cpu = bool(_cpu_nodes(one) & _cpu_nodes(other))
    return min([*between, SAME_CPU_COST if shares_cpu else UNKNOWN_COST])


def _links_between(one: GpuFacts, other: GpuFacts) -> list[GpuLink]:
    pairs = ((one, other), (other, one))
    return [link for a, b in pairs for link in a.links if link.to_node == b.node]


def _link_cost(link: GpuLink) -> int:
    hops = link.hops or 1
    if link.kind == "xgmi":
        return XGMI_HOP_COST * hops
    return min(PCIE_COST + hops - 1, UNKNOWN_COST) if link.kind == "pcie" else UNKNOWN_COST


def _cpu_nodes(gpu: GpuFacts) -> set[int]:
    return {
        link.to_node
        for link in gpu.links
        if link.to_pci_address is None and (link.hops or 1) == 1 and link.kind != "xgmi"
    }


def _explain(keys: Sequence[str], worst: int, *, num_free: int) -> str:
    if worst < PCIE_COST:
        path = f"joined by xGMI, at most {_hops(worst)} apart"
    elif worst < SAME_CPU_COST:
        path = f"that copy to each other over PCIe, at most {_hops(worst - PCIE_COST + 1)} apart"
    elif worst == SAME_CPU_COST:
        path = "on the PCIe of one CPU"
    else:
        path = "with no better path between them known than through the host"
    return f"GPUs {', '.join(keys)}: of {num_free} free ones the nearest to each other, {path}"


def _hops(count: int) -> str:
    return f"{count} hop{'s' if count > 1 else ''}"
