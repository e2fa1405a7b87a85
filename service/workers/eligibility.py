"""Which job may run where: the same reading of `resources` at submission and at a claim."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redkiln.spec.job_spec import Resources
from redkiln.tasks import SpecProblem

HOLD_BACK_SECONDS = 60.0
"""How long a job of several GPUs lets younger ones pass it."""


@dataclass(frozen=True)
class Machine:
    """What a live worker has.

    Attributes:
        arches: of its GPUs that are usable, or soon will be, an entry each; None for one that
            torch does not name.
        exclusions: why it trains on no more than these, a sentence for each further GPU.
    """

    arches: tuple[str | None, ...] = ()
    exclusions: tuple[str, ...] = ()

    @property
    def num_gpus(self) -> int:
        """GPUs that it trains on."""
        return len(self.arches)

    @property
    def has_gpu(self) -> bool:
        """Whether torch sees a GPU there, usable or not: a broken GPU is none to replace."""
        return bool(self.arches or self.exclusions)


def find_obstacle(resources: Resources, machines: Sequence[Machine]) -> SpecProblem | None:
    """Why none of the live workers could ever run a job, if so; None without any."""
    with_gpu = [machine for machine in machines if machine.num_gpus]
    if not machines or resources.device == "cpu":
        return None
    if resources.device == "gpu" and not with_gpu:
        return SpecProblem("/resources/device", "no_gpu_worker", _explain_no_gpu(machines))
    arches = {arch for machine in with_gpu for arch in machine.arches if arch is not None}
    if with_gpu and resources.arch and not arches.intersection(resources.arch):
        known = ", ".join(sorted(arches)) or "none known"
        message = f"no live worker has a GPU of this architecture; available: {known}"
        return SpecProblem("/resources/arch", "no_such_arch", message)
    most = max((most_alike(machine.arches, resources.arch) for machine in with_gpu), default=0)
    if with_gpu and resources.gpus > most:
        message = (
            f"no live worker has {resources.gpus} GPUs of one architecture; use at most {most}"
        )
        return SpecProblem("/resources/gpus", "not_enough_gpus", message)
    return None


def _explain_no_gpu(machines: Sequence[Machine]) -> str:
    exclusions = [sentence for machine in machines for sentence in machine.exclusions]
    if exclusions:
        every = f"the live workers use none of their GPUs: {'; '.join(exclusions[:3])}"
        return f"{every}; repair one, or use device cpu to train without a GPU"
    return (
        "no live worker has a usable GPU; start a worker with one, or use device any or cpu (if a "
        "machine has a GPU, `redkiln doctor` shows why it is not used)"
    )


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


def fits(
    resources: Mapping[str, Any], *, slots: Sequence[str], arches: Sequence[str | None]
) -> bool:
    """Whether free slots have the GPUs that a job asks for; a CPU has none and needs none.

    Args:
        resources: of the job's spec, as JSON.
        slots: kinds of the free slots.
        arches: of their GPUs, an entry each.
    """
    device = resources["device"]
    if device == "cpu":
        return True
    if "gpu" not in slots:
        return bool(device == "any")
    # A spec from before this field asks for one.
    return bool(most_alike(arches, resources["arch"]) >= resources.get("gpus", 1))


def holds_back(
    resources: Mapping[str, Any], *, waited_seconds: float, usable: Sequence[str | None]
) -> bool:
    """Whether a worker gets no younger job before this one, which does not fit just now.

    The GPUs of a job of several would never be free together if each was given away when it is.

    Args:
        resources: of the job's spec, as JSON.
        waited_seconds: since the job was submitted.
        usable: architectures of the worker's GPUs, busy ones too, an entry each.
    """
    gpus = resources.get("gpus", 1)
    is_due = gpus > 1 and waited_seconds >= HOLD_BACK_SECONDS
    return bool(is_due and most_alike(usable, resources["arch"]) >= gpus)


def most_alike(arches: Iterable[str | None], wanted: Sequence[str]) -> int:
    """GPUs of one architecture, of those that are wanted: what one job can be given."""
    counts = Counter(arch for arch in arches if not wanted or arch in wanted)
    return max(counts.values(), default=0)
