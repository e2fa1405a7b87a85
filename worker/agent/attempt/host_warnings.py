"""What is wrong with the host of a job's GPUs, before the first work on them may hang or fault."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from redkiln.views.hardware import GpuFacts
from worker.hardware.facts.cards import find_device_dir
from worker.hardware.facts.firmware_needs import describe_broken_firmware, read_mes
from worker.hardware.facts.kernel_needs import describe_old_kernel


def list_host_warnings(
    gpus: Iterable[GpuFacts], *, kernel_release: str | None, drm_dir: Path
) -> Iterator[tuple[str, str]]:
    """Yield the code and the text of each warning, once for GPUs of one kind.

    Args:
        gpus: GPUs of the attempt.
        kernel_release: Output of `uname -r`; None if unknown.
        drm_dir: `/sys/class/drm`, or a copy.
    """
    found: dict[tuple[str, str], None] = {}
    for gpu in gpus:
        device_dir = find_device_dir(gpu.card, drm_dir=drm_dir)
        version = read_mes(device_dir) if device_dir else None
        warnings = {
            "old_kernel": describe_old_kernel(gpu.gfx, kernel_release) if gpu.gfx else None,
            "broken_firmware": describe_broken_firmware(gpu.gfx, version),
        }
        found |= {(code, text): None for code, text in warnings.items() if text}
    yield from found
