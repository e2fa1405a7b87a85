import pytest

from tests.worker.hardware.trees import put
from worker.hardware.facts.software import SoftwareFacts, read_software


def test_kernel_driver_and_boot_parameters_are_read(tmp_path):
    put(tmp_path / "proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
    put(tmp_path / "proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet iommu=pt\n")
    put(tmp_path / "sys/module/amdgpu/version", "6.12.12\n")
    put(tmp_path / "opt/rocm/.info/version", "7.2.4\n")
    put(tmp_path / "dev/kfd", "")
    assert read_software(tmp_path) == SoftwareFacts(
        kernel_release="6.8.0-45-generic",
        amdgpu_version="6.12.12",
        is_amdgpu_loaded=True,
        is_wsl=False,
        has_iommu_pt=True,
        has_kfd=True,
        rocm_version="7.2.4",
    )


def test_the_kernels_own_driver_has_no_version(tmp_path):
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    facts = read_software(tmp_path)
    assert (facts.is_amdgpu_loaded, facts.amdgpu_version) == (True, None)


@pytest.mark.parametrize(
    ("cmdline", "has"),
    [("quiet\n", False), ("amd_iommu=pt2\n", False), ("iommu=pt", True), ("", None)],
)
def test_a_boot_parameter_must_be_a_complete_word(tmp_path, cmdline, has):
    put(tmp_path / "proc/cmdline", cmdline)
    assert read_software(tmp_path).has_iommu_pt is has


def test_wsl_is_recognised_by_its_kernel(tmp_path):
    put(tmp_path / "proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")
    put(tmp_path / "dev/dxg", "")
    facts = read_software(tmp_path)
    assert (facts.is_wsl, facts.has_dxg, facts.has_kfd) == (True, True, False)


def test_an_empty_root_gives_no_facts(tmp_path):
    assert read_software(tmp_path) == SoftwareFacts()
