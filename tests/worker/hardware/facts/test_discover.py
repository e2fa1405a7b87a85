import errno
from dataclasses import replace

import pytest

from redkiln.views.hardware import GpuFacts
from tests.worker.hardware.trees import (
    MI300X,
    RAPHAEL,
    RX_6800_XT,
    RX_7900_XTX,
    partitions_of,
    put,
    row_of,
    write_machine,
)
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.sysfs import read_file


def discover(machine, **options):
    return discover_gpus(topology_dir=machine.topology_dir, drm_dir=machine.drm_dir, **options)


def test_a_desktop_with_a_card_and_a_processor_gpu(tmp_path):
    card, apu = discover(write_machine(tmp_path, [RX_7900_XTX, RAPHAEL]))
    assert (card.name, card.is_apu, card.vram_bytes) == (
        "Radeon RX 7900 XTX",
        False,
        RX_7900_XTX.vram_bytes,
    )
    assert (card.card, card.drives_display, card.is_memory_approximate) == (0, False, False)
    assert card.memory_bandwidth_bytes_per_second == 960_000_000_000
    assert (apu.gfx, apu.is_apu, apu.card, apu.drives_display) == ("gfx1036", True, 1, True)
    assert (apu.vram_bytes, apu.is_memory_approximate) == (RAPHAEL.gtt_bytes, True)
    assert apu.memory_bandwidth_bytes_per_second is None


def test_cards_are_joined_by_address_and_not_by_number(tmp_path):
    crossed = [
        replace(RX_7900_XTX, card=7),
        replace(RX_6800_XT, bus=0x23, card=2, render_minor=130),
    ]
    gpus = discover(write_machine(tmp_path, crossed))
    assert [(gpu.gfx, gpu.card) for gpu in gpus] == [("gfx1100", 7), ("gfx1030", 2)]


def test_without_an_address_cards_are_joined_by_render_node(tmp_path):
    machine = write_machine(tmp_path, row_of(RX_6800_XT, 2))
    for number in (0, 1):
        (machine.device_dir(number) / "uevent").unlink()
    assert [gpu.card for gpu in discover(machine)] == [0, 1]


def test_cards_of_other_addresses_are_not_joined_by_render_node(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    event = machine.device_dir(0) / "uevent"
    event.write_text(event.read_text().replace("0000:03:00.0", "0000:04:00.0"))
    gpu, card = discover(machine)
    assert (gpu.node, gpu.card, gpu.is_accessible) == (1, None, True)
    assert (card.node, card.card, card.is_accessible) == (None, 0, False)


def test_partitions_share_the_sensors_of_their_card(tmp_path):
    gpus = discover(write_machine(tmp_path, partitions_of(MI300X, 8)), with_telemetry=True)
    assert {gpu.card for gpu in gpus} == {0}
    assert all(gpu.telemetry is not None for gpu in gpus)
    assert {gpu.memory_bandwidth_bytes_per_second for gpu in gpus} == {None}


def test_an_inaccessible_gpu_is_not_listed_twice(tmp_path):
    machine = write_machine(tmp_path, row_of(RX_6800_XT, 2))

    def read(path):
        if "/nodes/2/" in path:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return read_file(path)

    gpus = discover(machine, read=read)
    assert [(gpu.node, gpu.is_accessible, gpu.card) for gpu in gpus] == [
        (1, True, 0),
        (2, False, None),
    ]


def test_cards_without_topology_give_the_cards_facts(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    (gpu,) = discover_gpus(topology_dir=None, drm_dir=machine.drm_dir, with_telemetry=True)
    assert (gpu.gfx, gpu.is_gfx_inferred, gpu.name) == ("gfx1100", True, "Radeon RX 7900 XTX")
    assert (gpu.vram_bytes, gpu.render_minor) == (RX_7900_XTX.vram_bytes, 128)
    assert (gpu.node, gpu.cu_count, gpu.wave_size, gpu.peak_tflops) == (None, None, None, {})
    assert gpu.telemetry.busy_ratio == 0.05


def test_a_target_reported_by_the_driver_is_not_inferred(tmp_path):
    (gpu,) = discover(write_machine(tmp_path, [replace(RX_7900_XTX, gfx_version=120001)]))
    assert (gpu.gfx, gpu.is_gfx_inferred) == ("gfx1201", False)


def test_an_unknown_product_is_classified_by_its_target(tmp_path):
    known = [RX_7900_XTX, RAPHAEL, replace(MI300X, bus=0x83, card=None)]
    unknown = [replace(gpu, device_id=0xFFFF) for gpu in known]
    gpus = discover(write_machine(tmp_path, unknown))
    assert [gpu.name for gpu in gpus] == [None] * 3
    assert [gpu.is_apu for gpu in gpus] == [False, True, None]


def test_a_zero_unique_id_does_not_mean_an_apu(tmp_path):
    (gpu,) = discover(write_machine(tmp_path, [replace(RX_7900_XTX, unique_id=0)]))
    assert gpu.is_apu is False


def test_telemetry_is_read_only_on_request(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    assert discover(machine)[0].telemetry is None
    assert discover(machine, with_telemetry=True)[0].telemetry is not None


def test_the_cards_memory_is_used_if_the_topology_has_none(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    (machine.node_dir(1) / "mem_banks/0/properties").unlink()
    assert discover(machine)[0].vram_bytes == RX_7900_XTX.vram_bytes
    put(machine.device_dir(0) / "mem_info_vram_total", "0\n")
    assert discover(machine)[0].vram_bytes is None


@pytest.mark.parametrize("folders", [{"topology_dir": None}, {"drm_dir": None}, {}])
def test_without_any_files_there_is_no_gpu(tmp_path, folders):
    missing = {"topology_dir": tmp_path / "t", "drm_dir": tmp_path / "d"}
    assert discover_gpus(**(missing | folders)) == []


def test_facts_survive_serialisation(tmp_path):
    machine = write_machine(tmp_path, row_of(MI300X, 8), num_cpus=2, has_xgmi=True)
    for gpu in discover(machine, with_telemetry=True):
        assert GpuFacts.model_validate_json(gpu.model_dump_json()) == gpu
