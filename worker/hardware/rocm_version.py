"""The release of ROCm that a torch was built with, which is not the version of HIP.

Until ROCm 7.2 both had the same number. ROCm 10.0 contains HIP 7.15, and ROCm 10.1 HIP 7.16.

Source: pytorch/pytorch#168097 (torch.version.rocm, since torch 2.13) and #194256 (HIP 7.16 in ROCm
10.1), read 2026-11-23.
"""

from typing import Any


def read_rocm_version(version: Any) -> str | None:
    """Return the ROCm release of `torch.version`; None if torch was built without ROCm.

    A torch before 2.13 reports only HIP's version, which was the same in the releases of that time.
    """
    rocm: str | None = getattr(version, "rocm", None)
    hip: str | None = getattr(version, "hip", None)
    return rocm or hip
