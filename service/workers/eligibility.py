"""Decides which job may run where, by the same rules at submission and at a claim."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redkiln.spec.job_spec import Resources
from redkiln.spec.problems import SpecProblem

HOLD_BACK_SECONDS = 60.0
"""How long younger jobs may overtake a job that needs several GPUs."""


@dataclass(frozen=True)
class Machine:
    """The GPUs of a live worker.

    Attributes:
        arches: Architecture of each GPU that is usable now or soon; None if torch does not name it.
        exclusions: One sentence for each other GPU, why it is not used.
        packages: Optional packages that it has; None if it does not say.
        has_bf16: Whether each of these GPUs trains in bf16, in the order of `arches`; None if the
            worker does not say.
    """

    arches: tuple[str | None, ...] = ()
    exclusions: tuple[str, ...] = ()
    packages: frozenset[str] | None = None
    has_bf16: tuple[bool | None, ...] = ()

    @property
    def num_gpus(self) -> int:
        """GPUs that it trains on."""
        return len(self.arches)

    @property
    def has_gpu(self) -> bool:
        """Whether torch sees a GPU, usable or not: a CPU does not replace a broken GPU."""
        return bool(self.arches or self.exclusions)


def find_obstacle(resources: Resources, machines: Sequence[Machine]) -> SpecProblem | None:
    """Return why no live worker can ever run a job; None if one can, or if there is no worker."""
    with_gpu = [machine for machine in machines if machine.num_gpus]
    if not machines or resources.takes_cpu_slot:
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


def has_only_vulkan(resources: Resources, machines: Sequence[Machine]) -> bool:
    """Return whether a job leaves its device open, and only tinygrad has a GPU for it."""
    is_open = resources.engine == "auto" and resources.device == "any" and resources.gpus == 1
    return is_open and not any(one.has_gpu for one in machines) and _have_tinygrad(machines)


def _have_tinygrad(machines: Sequence[Machine]) -> bool:
    return any(TINYGRAD.names <= (one.packages or frozenset()) for one in machines)


def _explain_no_gpu(machines: Sequence[Machine]) -> str:
    if _have_tinygrad(machines) and not any(one.exclusions for one in machines):
        return (
            "torch can use no GPU of the live workers, but tinygrad has a device; remove "
            "device and set engine to tinygrad (docs/engines.md)"
        )
    exclusions = [sentence for machine in machines for sentence in machine.exclusions]
    if exclusions:
        every = "; ".join(one.rstrip(".") for one in exclusions[:3])
        return f"no live worker can use its GPUs: {every}. Repair one, or set device to cpu"
    return (
        "no live worker has a usable GPU; start a worker with one, or use device any or cpu (if a "
        "machine has a GPU, `redkiln doctor` shows why it is not used)"
    )


@dataclass(frozen=True)
class Need:
    """Something that only some workers have and only some jobs need.

    Attributes:
        names: Names by which workers report it, all of which are needed.
        pointer: Place in the spec that asks for it.
        why: End of a sentence: what needs it, and what to do without.
        code: Code of the problem if no worker has it.
    """

    names: frozenset[str]
    pointer: str
    why: str
    code: str = "no_such_package"

    def __str__(self) -> str:
        return " and ".join(sorted(self.names))


TIMM = Need(
    frozenset({"timm", "torchvision"}),
    "/model/source",
    "which this model needs; install them on a worker (docs/models.md), or use a model from "
    "transformers",
)
COMPILER = Need(
    frozenset({"compiler"}),
    "/training/compile",
    "which `default` needs; install gcc and g++ on a worker, or use `auto` or `off`",
)
TORCHAO = Need(
    frozenset({"torchao"}),
    "/export/variants",
    "which int8-qat needs; install it on a worker, or remove the variant",
)
TINYGRAD = Need(
    frozenset({"tinygrad"}),
    "/resources/engine",
    "which needs a Vulkan or OpenCL device; start a worker with the extra vulkan "
    "(docs/engines.md), or set engine to torch",
    "no_such_engine",
)
NEEDS = (TIMM, COMPILER, TORCHAO, TINYGRAD)


def list_needed(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return what a job needs that only some workers have, by its spec as JSON."""
    model, training, export = (_section(spec, name) for name in ("model", "training", "export"))
    variants = export.get("variants") or []
    if _section(spec, "resources").get("engine") == "tinygrad":
        return TINYGRAD.names
    asked = {
        TIMM: model.get("source") == "timm",
        COMPILER: training.get("compile") == "default",
        TORCHAO: any(isinstance(v, Mapping) and v.get("name") == "int8-qat" for v in variants),
    }
    return frozenset().union(*(need.names for need, is_asked in asked.items() if is_asked))


def _section(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = spec.get(name)
    return found if isinstance(found, Mapping) else {}


def has_packages(needed: frozenset[str], packages: Collection[str] | None) -> bool:
    """Return whether a worker has what a job needs; one that does not say is believed to."""
    return packages is None or needed <= set(packages)


def find_missing(needed: frozenset[str], machines: Sequence[Machine]) -> list[SpecProblem]:
    """Return what every live worker lacks; if each lacks something else, all that is needed."""
    if not machines or any(has_packages(needed, machine.packages) for machine in machines):
        return []
    asked = [need for need in NEEDS if need.names & needed]
    nowhere = [
        need
        for need in asked
        if not any(has_packages(need.names, machine.packages) for machine in machines)
    ]
    return [
        SpecProblem(need.pointer, need.code, f"no live worker has {need}, {need.why}")
        for need in nowhere or asked
    ]


def find_unsuited(spec: Mapping[str, Any], machines: Sequence[Machine]) -> SpecProblem | None:
    """Return a problem if a job wants bf16 and no live GPU that it may get trains in it."""
    resources = _section(spec, "resources")
    if _section(spec, "training").get("precision") != "bf16" or resources.get("device") == "cpu":
        return None
    wanted = resources.get("arch") or []
    pairs = [
        (arch, has_bf16)
        for machine in machines
        for arch, has_bf16 in zip(machine.arches, machine.has_bf16, strict=False)
        if not wanted or arch in wanted
    ]
    if not pairs or any(has_bf16 is not False for _, has_bf16 in pairs):
        return None
    names = ", ".join(sorted({arch or "unknown" for arch, _ in pairs}))
    message = f"no live GPU trains in bf16 ({names}); use `auto` or `fp16`"
    return SpecProblem("/training/precision", "no_such_precision", message)


def devices_for(slots: Sequence[str], *, any_live_gpu: bool) -> set[str]:
    """Return the values of `resources.device` that free slots may take.

    `any` means a CPU only if no live worker has a GPU at all, never because GPUs are busy.
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
    """Return whether free slots have the GPUs that a job needs; a job on a CPU needs none.

    Args:
        resources: `resources` of the job's spec, as JSON.
        slots: Kinds of the free slots: `gpu` or `cpu`.
        arches: Architecture of each free GPU.
    """
    device = resources["device"]
    if device == "cpu" or resources.get("engine") == "tinygrad":
        return True
    if "gpu" not in slots:
        return bool(device == "any")
    # A spec older than the field `gpus` asks for one.
    return bool(most_alike(arches, resources["arch"]) >= resources.get("gpus", 1))


def holds_back(
    resources: Mapping[str, Any], *, waited_seconds: float, usable: Sequence[str | None]
) -> bool:
    """Return whether a worker must not get younger jobs before this one, which does not fit yet.

    If each GPU were given away as soon as it is free, a job could never get several together.

    Args:
        resources: `resources` of the job's spec, as JSON.
        waited_seconds: Seconds since the job was submitted.
        usable: Architecture of each of the worker's GPUs, including busy ones.
    """
    gpus = resources.get("gpus", 1)
    is_due = gpus > 1 and waited_seconds >= HOLD_BACK_SECONDS
    return bool(is_due and most_alike(usable, resources["arch"]) >= gpus)


def most_alike(arches: Iterable[str | None], wanted: Sequence[str]) -> int:
    """Return GPUs of one architecture, of those that are wanted: what one job can be given."""
    counts = Counter(arch for arch in arches if not wanted or arch in wanted)
    return max(counts.values(), default=0)
