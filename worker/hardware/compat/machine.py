"""The parts of this machine, from the doctor's evidence."""

import re

from worker.hardware.compat.judge import Stack
from worker.hardware.doctor.evidence import Evidence

_ROCM_SUFFIX = re.compile(r"\+rocm(\d+(?:\.\d+)*)")


def stack_of(evidence: Evidence, *, pci_address: str | None = None) -> Stack:
    """Return the parts of a machine, with the firmware of one of its cards."""
    torch = evidence.torch
    return Stack(
        kernel=evidence.kernel_release,
        driver=evidence.driver_version,
        has_driver=evidence.has_driver or evidence.is_wsl,
        firmware=evidence.firmware.get(pci_address or "", {}),
        rocm=rocm_of(evidence),
        torch=torch.version if torch else None,
        has_torch=None if torch is None else torch.version is not None,
        python=evidence.python,
        is_container=evidence.is_container,
    )


def rocm_of(evidence: Evidence) -> str | None:
    """Return the release of ROCm with which torch was built; None if it is not a ROCm build.

    Builds before torch 2.13 name it only in their own version, if at all.
    """
    torch = evidence.torch
    if torch is None or torch.hip is None:
        return None
    suffix = _ROCM_SUFFIX.search(torch.version or "")
    return torch.rocm or (suffix[1] if suffix else torch.hip)
