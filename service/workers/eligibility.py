"""Which job may run where: the same reading of `resources` at submission and at a claim."""

from collections.abc import Sequence
from dataclasses import dataclass

from redkiln.spec import Resources
from redkiln.tasks import SpecProblem


@dataclass(frozen=True)
class Machine:
    """What a live worker has.

    Attributes:
        arches: of its GPUs; None for one that torch does not name.
    """

    num_gpus: int
    arches: frozenset[str | None] = frozenset()


def find_obstacle(resources: Resources, machines: Sequence[Machine]) -> SpecProblem | None:
    """Why none of the live workers could ever run a job, if so; None without any."""
    with_gpu = [machine for machine in machines if machine.num_gpus]
    if not machines or resources.device == "cpu":
        return None
    if resources.device == "gpu" and not with_gpu:
        message = "no live worker has a GPU; start one that has, or use device any or cpu"
        return SpecProblem("/resources/device", "no_gpu_worker", message)
    arches = {arch for machine in with_gpu for arch in machine.arches if arch is not None}
    if with_gpu and resources.arch and not arches.intersection(resources.arch):
        known = ", ".join(sorted(arches)) or "none that has a name"
        message = f"no live worker has such a GPU; live architectures: {known}"
        return SpecProblem("/resources/arch", "no_such_arch", message)
    return None


def devices_for(slots: Sequence[str], *, any_live_gpu: bool) -> set[str]:
    """The values of `resources.device` that free slots may take.

    `any` means a CPU only where no live worker has a GPU at all, never because one is busy.
    """
    devices: set[str] = set()
    if "gpu" in slots:
        devices |= {"gpu", "any"}
    if "cpu" in slots:
        devices |= {"cpu"} if any_live_gpu else {"cpu", "any"}
    return devices


def fits_arch(
    wanted: Sequence[str], *, device: str, slots: Sequence[str], arches: Sequence[str]
) -> bool:
    """Whether free slots have an architecture that a job accepts; a CPU has none."""
    if not wanted or device == "cpu":
        return True
    if "gpu" in slots:
        return bool(set(wanted).intersection(arches))
    return device == "any"
