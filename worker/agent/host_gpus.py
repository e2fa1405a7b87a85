"""The GPUs of a host by two witnesses: what the driver's files say, and what torch can open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from redkiln.hardware import GpuExclusion, GpuFacts
from redkiln.job import GpuView
from worker.agent.environment import show_one_gpu
from worker.hardware.choose import find_exclusions, gpu_key


@dataclass(frozen=True)
class HostGpu:
    """One GPU.

    Attributes:
        key: what its lease is named by.
        view: as torch has it; None when torch does not open it.
        mask: the variable that shows a child this GPU alone.
        excluded: why it is never trained on as things are set up; None when it may be.
    """

    key: str
    facts: GpuFacts
    view: GpuView | None = None
    mask: Mapping[str, str] | None = None
    excluded: GpuExclusion | None = None

    @property
    def arch(self) -> str | None:
        """Its architecture, as jobs ask for it."""
        return (self.view and self.view.arch) or self.facts.gfx


def join_gpus(
    views: Sequence[GpuView],
    facts: Sequence[GpuFacts],
    *,
    wanted: str,
    is_hip: bool,
    environ: Mapping[str, str],
) -> list[HostGpu]:
    """All GPUs of the host, the ones that torch opens first, each with why it is left alone.

    Args:
        views: what torch can open.
        facts: what the driver's files tell; empty where there is no such driver.
        wanted: the setting REDKILN_GPUS.
        is_hip: whether torch is a ROCm build.
        environ: the agent's own environment, in which torch was asked.
    """
    left = list(facts)
    opened = [_join(view, left, is_hip=is_hip, environ=environ) for view in views]
    hidden = [HostGpu(gpu_key(gpu), gpu) for gpu in left]
    # What torch cannot open is no reason to leave an APU alone.
    known = [gpu.facts for gpu in opened] + [gpu for gpu in left if not gpu.is_accessible]
    excluded = find_exclusions(known, wanted=wanted)
    return [
        *(replace(gpu, excluded=excluded.get(gpu.key)) for gpu in opened),
        *(replace(gpu, excluded=excluded.get(gpu.key) or _unseen(gpu.facts)) for gpu in hidden),
    ]


def show_gpus(gpus: Sequence[HostGpu]) -> dict[str, str]:
    """The one variable that shows a child these GPUs and no other."""
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
        # An index means another GPU when one is added or hidden; a unique id does not.
        mask = {"ROCR_VISIBLE_DEVICES": facts.uuid}
    key = gpu_key(facts) if facts.pci_address else f"gpu-{view.index}"
    return HostGpu(key, facts, view, mask)


def _take_facts(view: GpuView, left: list[GpuFacts]) -> GpuFacts | None:
    """The facts of the same device, taken out of those left; partitions in their order."""
    for facts in left:
        if view.pci_address and _device(facts.pci_address) == _device(view.pci_address):
            left.remove(facts)
            return facts
    return None


def _device(pci_address: str | None) -> str | None:
    """Without the function, which torch does not tell."""
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
        message=f"The driver has it ({facts.gfx or 'architecture unknown'}), but torch does not "
        "open it: the build may be for CPUs or lack its architecture, its device nodes may not be "
        "passed, or a *_VISIBLE_DEVICES variable hides it; `redkiln doctor` says which.",
    )
