"""The GPUs of a host from two sources: the driver's files, and what torch can open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from redkiln.views.hardware import GpuExclusion, GpuFacts
from redkiln.views.worker import GpuView
from worker.agent.children.environment import show_one_gpu
from worker.hardware.choose import find_exclusions, gpu_key


@dataclass(frozen=True)
class HostGpu:
    """One GPU.

    Attributes:
        key: Name of its lease.
        view: Torch's view of it; None if torch cannot open it.
        mask: Variable that shows a child only this GPU.
        excluded: Why this setup never trains on it; None if it may be used.
    """

    key: str
    facts: GpuFacts
    view: GpuView | None = None
    mask: Mapping[str, str] | None = None
    excluded: GpuExclusion | None = None

    @property
    def arch(self) -> str | None:
        """Its architecture, in the form in which jobs request it."""
        return (self.view and self.view.arch) or self.facts.gfx


def join_gpus(
    views: Sequence[GpuView],
    facts: Sequence[GpuFacts],
    *,
    wanted: str,
    is_hip: bool,
    environ: Mapping[str, str],
) -> list[HostGpu]:
    """Join all GPUs of the host, those that torch opens first, each with its exclusion if any.

    Args:
        views: GPUs that torch can open.
        facts: GPUs in the driver's files; empty without such a driver.
        wanted: Value of the setting REDKILN_GPUS.
        is_hip: Whether torch is a ROCm build.
        environ: The agent's environment, in which torch listed its GPUs.
    """
    left = list(facts)
    opened = [_join(view, left, is_hip=is_hip, environ=environ) for view in views]
    hidden = [HostGpu(gpu_key(gpu), gpu) for gpu in left]
    # A GPU that torch cannot open must not cause an APU to be excluded.
    known = [gpu.facts for gpu in opened] + [gpu for gpu in left if not gpu.is_accessible]
    excluded = find_exclusions(known, wanted=wanted)
    return [
        *(replace(gpu, excluded=excluded.get(gpu.key)) for gpu in opened),
        *(replace(gpu, excluded=excluded.get(gpu.key) or _unseen(gpu.facts)) for gpu in hidden),
    ]


def show_gpus(gpus: Sequence[HostGpu]) -> dict[str, str]:
    """Return the variable that shows a child these GPUs and no others."""
    shown: dict[str, list[str]] = {}
    for gpu in gpus:
        for name, value in (gpu.mask or {}).items():
            shown.setdefault(name, []).append(value)
    return {name: ",".join(values) for name, values in shown.items()}


def _join(
    view: GpuView, left: list[GpuFacts], *, is_hip: bool, environ: Mapping[str, str]
) -> HostGpu:
    facts = _take_facts(view, left) or _facts_of(view)
    mask = show_one_gpu(view.index, environ, is_hip=is_hip)
    if is_hip and facts.uuid is not None:
        # An index changes when a GPU is added or hidden; a unique id does not.
        mask = {"ROCR_VISIBLE_DEVICES": facts.uuid}
    key = gpu_key(facts) if facts.pci_address else f"gpu-{view.index}"
    return HostGpu(key, facts, view, mask)


def _take_facts(view: GpuView, left: list[GpuFacts]) -> GpuFacts | None:
    """Remove and return the facts of the same device; partitions match in their order."""
    for facts in left:
        if view.pci_address and _device(facts.pci_address) == _device(view.pci_address):
            left.remove(facts)
            return facts
    return None


def _device(pci_address: str | None) -> str | None:
    """Return a PCI address without its function, which torch does not report."""
    return pci_address.lower().rpartition(".")[0] if pci_address else None


def _facts_of(view: GpuView) -> GpuFacts:
    is_amd = bool(view.arch and view.arch.startswith("gfx"))
    return GpuFacts(
        gfx=view.arch if is_amd else None,
        name=view.name,
        vram_bytes=view.memory_bytes,
        pci_address=view.pci_address,
    )


def _unseen(facts: GpuFacts) -> GpuExclusion:
    return GpuExclusion(
        code="not_in_torch",
        message=f"The driver lists it ({facts.gfx or 'architecture unknown'}), but torch cannot "
        "open it. The build may be CPU-only or lack this architecture, its device nodes may be "
        "missing, or a *_VISIBLE_DEVICES variable may hide it; run `redkiln doctor` to see which.",
    )
