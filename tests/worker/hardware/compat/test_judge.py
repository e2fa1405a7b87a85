"""A machine compared with what its card needs, and the smallest change."""

from dataclasses import replace

import pytest

from worker.hardware.compat.judge import Stack, judge

FITS = Stack(
    kernel="7.0.0-12-generic",
    has_driver=True,
    firmware={"MES": "0x00000080"},
    rocm="10.0.0",
    torch="2.13.0+rocm10.0.0",
    has_torch=True,
    python="3.12.4",
)


def changes(gfx="gfx1100", **other):
    return [change.part for change in judge(gfx, replace(FITS, **other)).changes]


def verdict(part, gfx="gfx1100", **other):
    found = judge(gfx, replace(FITS, **other))
    return next(each.verdict for each in found.parts if each.part == part)


@pytest.mark.parametrize("gfx", ["gfx1100", "gfx1151", "gfx1201", "gfx942", "gfx1031"])
def test_a_new_machine_needs_no_change(gfx):
    found = judge(gfx, FITS)
    assert found.is_supported
    assert found.release.rocm == "10.0"


def test_a_cpu_build_of_torch_is_one_change_with_a_command():
    found = judge("gfx1100", replace(FITS, rocm=None, torch="2.13.0+cpu"))
    (change,) = found.changes
    assert (change.part, found.release.rocm) == ("torch", "10.1")
    assert '"torch[device-gfx1100]"' in change.command
    assert "whl-next" in change.command


def test_a_release_for_the_python_that_is_installed_is_chosen():
    found = judge("gfx1100", replace(FITS, rocm=None, torch="2.13.0+cpu", python="3.11.9"))
    assert (len(found.changes), found.release.rocm) == (1, "10.0")  # 10.1 has no Python 3.11


def test_the_release_that_is_installed_is_kept_although_a_newer_one_exists():
    found = judge("gfx1100", replace(FITS, rocm="7.2.4", torch="2.13.0+rocm7.2"))
    assert found.is_supported
    assert found.release.rocm == "7.2"


def test_a_card_without_classic_wheels_moves_to_amds():
    found = judge("gfx1031", replace(FITS, rocm="7.2.4", torch="2.12.0+rocm7.2"))
    assert [change.part for change in found.changes] == ["torch"]
    assert found.release.wheels == "therock"


def test_an_old_kernel_of_strix_halo_has_to_change_and_its_firmware_too():
    assert changes("gfx1151", kernel="6.14.0-1020-oem") == ["kernel"]
    assert changes("gfx1151", firmware={"MES": "0x00000083"}) == ["firmware"]
    assert verdict("firmware", "gfx1151", firmware={}) == "unknown"


def test_a_kernel_below_what_is_only_listed_may_work():
    assert verdict("kernel", "gfx1103", kernel="6.8.0-1") == "may work"
    assert changes("gfx1103", kernel="6.8.0-1") == []


def test_amds_own_driver_brings_a_new_card_to_an_old_kernel():
    assert verdict("kernel", "gfx1201", kernel="6.8.0-1") == "too old"
    assert verdict("kernel", "gfx1201", kernel="6.8.0-1", driver="6.16.13") == "may work"


def test_a_kernel_that_no_source_names_is_unknown_and_no_change():
    assert verdict("kernel", "gfx1171") == "unknown"
    assert verdict("kernel", "gfx1250", kernel="6.17") == "too old"


def test_a_driver_that_is_not_loaded_is_one_command():
    (change,) = judge("gfx1100", replace(FITS, has_driver=False)).changes
    assert change.command == "sudo modprobe amdgpu"


def test_an_old_driver_of_amd_is_kept_if_another_release_runs_on_it():
    old = {"driver": "6.12.12", "rocm": "10.0.0"}
    found = judge("gfx1100", replace(FITS, **old))
    assert found.release.rocm == "7.2"  # another torch is cheaper than another driver
    assert changes("gfx1031", **old) == ["driver"]


def test_what_was_not_asked_is_unknown_and_no_change():
    blank = Stack(kernel="7.0")
    found = judge("gfx1100", blank)
    assert found.is_supported
    assert {part.part for part in found.parts if part.verdict == "unknown"} >= {"torch", "ROCm"}


def test_in_a_container_the_worker_is_built_again():
    (change,) = judge("gfx1100", replace(FITS, rocm=None, is_container=True)).changes
    assert change.command == "./up --slim"


def test_a_card_with_only_an_override_gets_the_wheels_that_it_is_run_with():
    (change,) = judge("gfx90c", replace(FITS, rocm=None)).changes
    assert '"torch[device-gfx900]"' in change.command
    assert verdict("torch", "gfx90c") == "may work"
    assert judge("gfx90c", FITS).is_supported


def test_a_card_without_builds_has_a_reason_and_no_change():
    found = judge("gfx803", FITS)
    assert "No published build" in found.reason
    assert not found.is_supported
    assert found.changes == ()


def test_an_unknown_card_is_an_error():
    with pytest.raises(KeyError):
        judge("gfx9999", FITS)
