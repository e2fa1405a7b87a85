"""What drives the GPUs: kernel, driver, boot parameters, as far as files tell it."""

from dataclasses import dataclass
from pathlib import Path

from worker.hardware.sysfs import Read, is_folder, read_file, read_text


@dataclass(frozen=True)
class SoftwareFacts:
    """The system below the GPU libraries; what a root does not hold is None.

    Attributes:
        kernel_release: as `uname -r` prints it.
        amdgpu_version: of AMD's own driver package; the kernel's own module has no version.
        is_amdgpu_loaded: whether the module is there.
        is_wsl: whether Linux runs inside Windows, where there is no /dev/kfd.
        has_iommu_pt: whether `iommu=pt` was given at boot, which peer-to-peer copies may need.
        has_kfd: whether /dev/kfd is there.
        has_dxg: whether /dev/dxg, WSL's way to the GPU, is there.
        rocm_version: of an installation in /opt/rocm; wheels bring their own.
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
    """The software facts of a machine, or of a copy of its files.

    Args:
        root: what lies at `/` there.
        read: how files are read.
    """

    def text(path: str) -> str | None:
        return read_text(str(root / path), read=read) or None

    release, boot = text("proc/sys/kernel/osrelease"), text("proc/cmdline")
    has_modules = is_folder(root / "sys/module")
    return SoftwareFacts(
        kernel_release=release,
        amdgpu_version=text("sys/module/amdgpu/version"),
        is_amdgpu_loaded=is_folder(root / "sys/module/amdgpu") if has_modules else None,
        # Source: microsoft/WSL#423, kernels of WSL carry "microsoft" in their release.
        is_wsl="microsoft" in release.lower() if release else None,
        has_iommu_pt="iommu=pt" in boot.split() if boot else None,
        has_kfd=(root / "dev/kfd").exists(),
        has_dxg=(root / "dev/dxg").exists(),
        rocm_version=text("opt/rocm/.info/version"),
    )
