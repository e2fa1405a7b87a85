from dataclasses import replace

from tests.worker.hardware.doctor.made_machine import (
    CARD,
    CPU_BUILD,
    HEALTHY,
    INTEGRATED,
    RENDER,
    RENDER_2,
    with_gfx,
)
from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.table.components import list_components


def verdicts(**changes):
    return {each.name: each.verdict for each in list_components(replace(HEALTHY, **changes))}


def test_each_part_is_beside_what_the_card_needs():
    found = {each.name: each for each in list_components(HEALTHY)}
    assert list(found) == ["kernel", "driver", "firmware", "ROCm", "torch", "Python"]
    assert (found["kernel"].found, found["kernel"].needed) == ("6.18.3-generic", "6.8")
    assert all(each.verdict == "fits" for each in found.values())
    assert all(each.source for each in found.values())


def test_the_strictest_card_counts():
    halo = CARD.model_copy(update={"gfx": "gfx1151", "pci_address": "0000:09:00.0"})
    assert verdicts(gpus=(CARD, halo))["kernel"] == "too old"


def test_an_integrated_gpu_beside_a_card_does_not_count():
    assert verdicts(gpus=(CARD, INTEGRATED), render_nodes=(RENDER, RENDER_2))["kernel"] == "fits"


def test_a_card_without_a_driver_is_known_by_its_pci_id():
    found = verdicts(gpus=(), pci_targets=("gfx1100",), has_driver=False, kfd=None)
    assert found["driver"] == "missing"


def test_firmware_without_a_known_minimum_is_shown_as_it_is():
    versions = {"SMC": "0x004e7e00", "MES": "0x00000076", "VCN": "0x1"}
    found = list_components(replace(HEALTHY, firmware={CARD.pci_address: versions}))
    (shown,) = [each for each in found if each.name == "firmware"]
    assert (shown.found, shown.needed) == ("MES 0x00000076, SMC 0x004e7e00", "no minimum known")
    assert shown.verdict == "fits"


def test_firmware_is_shown_for_a_card_with_a_known_bad_one():
    broken = {"firmware": {CARD.pci_address: {"MES": "0x00000083"}}}
    assert verdicts(**with_gfx("gfx1151"), **broken)["firmware"] == "broken"


def test_without_a_gpu_only_what_is_here_is_shown():
    bare = Evidence(at=HEALTHY.at, torch=CPU_BUILD, kernel_release="6.1")
    assert {each.name: each.needed for each in list_components(bare)} == {"kernel": "", "torch": ""}
