"""Linux releases that are too old for a GPU."""

import re

from worker.hardware.facts.targets import find_target

OEM_FIX = (6, 14, 0, 1018)
"""Ubuntu's OEM kernel with the fix for gfx1151. Source: ROCm/ROCm#6146, read 2026-11-23."""


def describe_old_kernel(gfx: str, release: str | None) -> str | None:
    """Describe why a kernel is too old for a target; None if it is not, or if this is unknown.

    Args:
        gfx: LLVM target.
        release: Output of `uname -r`.
    """
    target = find_target(gfx)
    if target is None or target.min_kernel is None or release is None:
        return None
    if _numbers(release)[:3] >= _numbers(target.min_kernel) or _has_fix(release):
        return None
    return (
        f"{gfx} needs Linux {target.min_kernel} or later, and this is {release}: without the fix, "
        "which a distribution may have added, the first work on the GPU ends in a page fault. "
        "docs/hardware.md names the kernels (`old_kernel_faults`)"
    )


def _has_fix(release: str) -> bool:
    return release.endswith("-oem") and _numbers(release) >= OEM_FIX


def _numbers(release: str) -> tuple[int, ...]:
    """Return the leading numbers: `6.14.0-1018-oem` is (6, 14, 0, 1018)."""
    match = re.match(r"\d+(?:[.-]\d+)*", release)
    return tuple(int(number) for number in re.split(r"[.-]", match[0])) if match else ()
