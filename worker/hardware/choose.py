"""Which GPUs are used for training, and which free ones a job gets: decisions from facts alone."""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from redkiln.views.hardware import GpuExclusion, GpuFacts, GpuLink
from worker.hardware.facts.kfd import is_divisible
from worker.hardware.facts.targets import find_target

XGMI_HOP_COST = 1
PCIE_COST = 16
SAME_CPU_COST = 24
UNKNOWN_COST = 32
"""Cost of a pair of GPUs by its best path. xGMI with any number of hops is faster than PCIe; over
PCIe, GPUs that copy directly to each other are faster than those that cannot."""


Costs = Mapping[frozenset[str], int]


@dataclass(frozen=True)
class Choice:
    """GPUs for one job.

    Attributes:
        reason: Why these GPUs were chosen, for people.
    """

    keys: tuple[str, ...]
    reason: str


def gpu_key(facts: GpuFacts) -> str:
    """Return the name of a GPU's lease: its PCI address, or the render node if it can be divided.

    A container that gets one partition cannot read its siblings, so it may not know which
    partition it has, but all containers of a host agree on the number of the render node.
    """
    if is_divisible(facts.gfx) and facts.render_minor is not None:
        return f"renderD{facts.render_minor}"
    return _place_of(facts)


def parse_wanted(setting: str) -> frozenset[str]:
    """Parse the entries of REDKILN_GPUS: `auto`, `all`, or names of GPUs."""
    entries = frozenset(entry.strip().lower() for entry in setting.split(",") if entry.strip())
    return entries or frozenset({"auto"})


def find_exclusions(gpus: Sequence[GpuFacts], *, wanted: str) -> dict[str, GpuExclusion]:
    """Return the excluded GPUs of this host, by key, with the reasons; the others can be used.

    An APU is used like any GPU if no discrete GPU can be used. Otherwise it is excluded, unless the
    setting names it.

    Args:
        gpus: All GPUs that the driver lists.
        wanted: Value of the setting REDKILN_GPUS.
    """
    entries = parse_wanted(wanted)
    excluded = {gpu_key(gpu): why for gpu in gpus if (why := _find_fault(gpu, entries))}
    usable = [gpu for gpu in gpus if gpu_key(gpu) not in excluded]
    discrete = [gpu for gpu in usable if not gpu.is_apu]
    if entries == {"auto"} and discrete:
        discrete_key = gpu_key(discrete[0])
        excluded |= {
            gpu_key(gpu): _exclude_apu(gpu, discrete_key=discrete_key)
            for gpu in usable
            if gpu.is_apu
        }
    return excluded


def choose_gpus(
    candidates: Mapping[str, GpuFacts], count: int, *, with_display: Collection[str] = ()
) -> Choice | None:
    """Choose the best of the free GPUs for a job; None if there are too few.

    Args:
        candidates: Free GPUs of one architecture by key, in order of preference.
        count: Number of GPUs that the job needs.
        with_display: Keys of GPUs that drive a screen; they are used last.
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
        text = "The driver lists its card, but does not offer it for computing (no KFD node)."
        return GpuExclusion(code="not_offered", message=text)
    node = "renderD*" if gpu.render_minor is None else f"renderD{gpu.render_minor}"
    return GpuExclusion(
        code="inaccessible",
        message=f"It exists, but this worker may not open it. Pass /dev/dri/{node} and /dev/kfd "
        "to the container, or add this user to the group that owns them.",
    )


def _is_unwanted(gpu: GpuFacts, entries: frozenset[str]) -> GpuExclusion | None:
    if entries & {"auto", "all"} or entries & _names(gpu):
        return None
    named = ", ".join(sorted(entries))
    return GpuExclusion(code="not_wanted", message=f"REDKILN_GPUS names other GPUs: {named}.")


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


def _place_of(facts: GpuFacts) -> str:
    place = facts.pci_address or f"node-{facts.node}"
    return place if facts.partition is None else f"{place}-p{facts.partition}"


def _names(gpu: GpuFacts) -> set[str]:
    names = {gpu_key(gpu), _place_of(gpu), gpu.pci_address, gpu.uuid}
    return {name.lower() for name in names if name}


def _exclude_apu(gpu: GpuFacts, *, discrete_key: str) -> GpuExclusion:
    return GpuExclusion(
        code="apu_beside_discrete",
        message=f"It shares the host's memory, and the discrete GPU {discrete_key} is used "
        f"instead. To use it too, set REDKILN_GPUS to all or to a list with its address "
        f"{gpu_key(gpu)}.",
    )


def _grow(start: str, keys: Sequence[str], count: int, costs: Costs) -> list[str]:
    """Starting with one GPU, repeatedly add the one with the best connection to those chosen."""
    chosen, left = [start], [key for key in keys if key != start]
    while len(chosen) < count:
        nearest = min(left, key=lambda key: sum(costs[frozenset((key, one))] for one in chosen))
        chosen.append(nearest)
        left.remove(nearest)
    return chosen


def _spread(keys: Sequence[str], costs: Costs) -> tuple[int, int]:
    """Compare the worst pair first, because a collective is as fast as its slowest link."""
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
        path = f"xGMI joins them, at most {_hops(worst)} apart"
    elif worst < SAME_CPU_COST:
        path = f"they copy over PCIe, at most {_hops(worst - PCIE_COST + 1)} apart"
    elif worst == SAME_CPU_COST:
        path = "they use the PCIe of one CPU"
    else:
        path = "no known path between them avoids the host"
    return (
        f"Chose GPUs {', '.join(keys)} from {num_free} free GPUs, because they are closest to each "
        f"other: {path}"
    )


def _hops(count: int) -> str:
    return f"{count} hop{'s' if count > 1 else ''}"
