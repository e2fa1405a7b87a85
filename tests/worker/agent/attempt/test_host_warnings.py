import pytest

from redkiln.views.hardware import GpuFacts
from worker.agent.attempt.host_warnings import list_host_warnings
from worker.hardware.facts.firmware_needs import MES_FILE

FIXED = "6.18.4"


@pytest.fixture
def warn(tmp_path):
    """The codes for GPUs whose card 0 has a firmware."""

    def warn(*gfx, release=FIXED, mes=None):
        file = tmp_path / "card0/device" / MES_FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        if mes is not None:
            file.write_text(mes)
        gpus = [GpuFacts(gfx=name, card=0) for name in gfx]
        return list(list_host_warnings(gpus, kernel_release=release, drm_dir=tmp_path))

    return warn


@pytest.mark.parametrize(
    ("gfx", "mes", "is_broken"),
    [
        ("gfx1151", "0x00000083\n", True),
        ("gfx1151", "0x00000080\n", False),
        ("gfx1151", "0x0000008", False),  # cut off
        ("gfx1151", None, False),
        ("gfx1100", "0x00000083\n", False),
        (None, "0x00000083\n", False),
    ],
)
def test_firmware_of_strix_halo_that_hangs_is_named_before_the_first_job(warn, gfx, mes, is_broken):
    found = warn(gfx, mes=mes)
    assert [code for code, _ in found] == ["broken_firmware"] * is_broken
    if is_broken:
        assert "MES 0x83" in found[0][1]
        assert "newer linux-firmware" in found[0][1]


def test_an_old_kernel_and_its_firmware_are_two_warnings_and_each_is_given_once(warn):
    found = warn("gfx1151", "gfx1151", release="6.17.0-20-generic", mes="0x00000083\n")
    assert [code for code, _ in found] == ["old_kernel", "broken_firmware"]


def test_an_unknown_card_does_not_fail(tmp_path):
    gpus = [GpuFacts(gfx="gfx1151")]
    assert list(list_host_warnings(gpus, kernel_release=None, drm_dir=tmp_path)) == []
