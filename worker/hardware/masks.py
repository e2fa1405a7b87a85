"""Variables that show a process some of a host's GPUs and hide the others.

Source: ROCm documentation, "GPU isolation techniques": the runtime applies ROCR's mask first, HIP's
indices are relative to the remaining GPUs, and HIP also reads CUDA's variable.
"""

from collections.abc import Mapping, Sequence

from redkiln.views.hardware import GpuFacts

MASKS = (
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
)
HIDE_GPUS = {"HIP_VISIBLE_DEVICES": "-1", "CUDA_VISIBLE_DEVICES": "-1"}
"""An empty value does not mean "none" to either runtime; ROCR_VISIBLE_DEVICES stays unset."""


def list_offered(gpus: Sequence[GpuFacts]) -> list[GpuFacts]:
    """Return the GPUs that the runtime numbers, in its order, which is that of their KFD nodes."""
    return [gpu for gpu in gpus if gpu.is_accessible and gpu.node is not None]


def pick_visible(gpus: Sequence[GpuFacts], environ: Mapping[str, str]) -> list[GpuFacts]:
    """Return the offered GPUs that a program sees, in its order."""
    hip_mask = environ.get("HIP_VISIBLE_DEVICES") or environ.get("CUDA_VISIBLE_DEVICES")
    shown = list(gpus)
    for mask in (environ.get("ROCR_VISIBLE_DEVICES"), hip_mask):
        if mask:
            entries = [entry.strip() for entry in mask.split(",")]
            shown = [gpu for entry in entries for gpu in _find(entry, shown)]
    return shown


def show_alone(
    gpu: GpuFacts, environ: Mapping[str, str], *, offered: Sequence[GpuFacts]
) -> dict[str, str]:
    """Build an environment with one mask, which shows one of the offered GPUs and no others."""
    return show_only([gpu], environ, offered=offered)


def show_only(
    gpus: Sequence[GpuFacts], environ: Mapping[str, str], *, offered: Sequence[GpuFacts]
) -> dict[str, str]:
    """Build an environment with one mask, which shows some of the offered GPUs in this order."""
    unmasked = {name: value for name, value in environ.items() if name not in MASKS}
    entries = [gpu.uuid or str(list(offered).index(gpu)) for gpu in gpus]
    return {**unmasked, "ROCR_VISIBLE_DEVICES": ",".join(entries)}


def _find(entry: str, gpus: Sequence[GpuFacts]) -> list[GpuFacts]:
    if entry.isdecimal():
        return list(gpus[int(entry) : int(entry) + 1])
    return [gpu for gpu in gpus if gpu.uuid and gpu.uuid.lower() == entry.lower()]
