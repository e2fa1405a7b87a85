"""The software below the GPU libraries: kernel, driver and boot parameters, from files."""

from dataclasses import dataclass
from pathlib import Path

from worker.hardware.facts.sysfs import Read, is_folder, read_file, read_text


@dataclass(frozen=True)
class SoftwareFacts:
    """The system below the GPU libraries; a value that the files do not contain is None.

    Attributes:
        kernel_release: Output of `uname -r`.
        amdgpu_version: Version of AMD's driver package; the kernel's own module has none.
        is_amdgpu_loaded: Whether the module is loaded.
        is_wsl: Whether Linux runs inside Windows, which has no /dev/kfd.
        has_iommu_pt: Whether `iommu=pt` was given at boot, which peer-to-peer copies may need.
        has_kfd: Whether /dev/kfd exists.
        has_dxg: Whether /dev/dxg, the GPU device of WSL, exists.
        rocm_version: Version of an installation in /opt/rocm; wheels contain their own ROCm.
    """

    kernel_release: str | None = None
    amdgpu_version: str | None = None
    is_amdgpu_loaded: bool | None = None
    is_wsl: bool | None = None
    has_iommu_pt: bool | None = None
    has_kfd: bool = False
    has_dxg: bool = False
    rocm_version: str | None = None


def read_software(root: Path = Path("/"), *, read: Read = read_file) -> SoftwareFacts:
    """Read the software facts of a machine, or of a copy of its files.

    Args:
        root: Root folder of the machine's files.
        read: Function that reads a file.
    """

    def text(path: str) -> str | None:
        return read_text(str(root / path), read=read) or None

    release, boot = text("proc/sys/kernel/osrelease"), text("proc/cmdline")
    has_modules = is_folder(root / "sys/module")
    return SoftwareFacts(
        kernel_release=release,
        amdgpu_version=text("sys/module/amdgpu/version"),
        is_amdgpu_loaded=is_folder(root / "sys/module/amdgpu") if has_modules else None,
        # Source: microsoft/WSL#423: WSL kernels have "microsoft" in their release.
        is_wsl="microsoft" in release.lower() if release else None,
        has_iommu_pt="iommu=pt" in boot.split() if boot else None,
        has_kfd=(root / "dev/kfd").exists(),
        has_dxg=(root / "dev/dxg").exists(),
        rocm_version=text("opt/rocm/.info/version"),
    )
