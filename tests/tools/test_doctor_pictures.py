"""The pictures of docs/doctor.md show what the doctor says of five machines."""

from pathlib import Path

import pytest

from tools.doctor_machines import MACHINES
from tools.doctor_pictures import MOST_FINE, draw, picture_path, shorten
from worker.hardware.doctor.examine import examine

FIRST = {
    "healthy": None,
    "no-driver": "sudo modprobe amdgpu",
    "wrong-groups": "sudo usermod --append --groups render $USER",
    "apu-beside-a-card": "export ROCR_VISIBLE_DEVICES=GPU-00000000005d0f6b",
    "strix-halo-old-kernel": "sudo dnf upgrade --refresh kernel linux-firmware",
}
PAGE = Path(__file__).parents[2] / "docs/doctor.md"


@pytest.mark.parametrize("name", MACHINES)
def test_the_first_advice_fits_the_machine(name):
    first = examine(MACHINES[name]).first
    assert (first and first.command) == FIRST[name]


@pytest.mark.parametrize("name", MACHINES)
def test_each_machine_has_its_picture_on_the_page(name):
    assert picture_path(name).is_file()
    assert f"pictures/doctor-{name}.svg" in PAGE.read_text()


def test_a_picture_keeps_the_faults_and_few_of_the_rest():
    report = shorten(examine(MACHINES["no-driver"]))
    assert report.first is not None
    assert sum(check.verdict == "ok" and bool(check.row) for check in report.checks) == MOST_FINE
    assert "modprobe" in draw(report)
