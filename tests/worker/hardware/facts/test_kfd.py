import errno
import os
from dataclasses import replace

import pytest

from tests.worker.hardware.trees import (
    GIB,
    MI300X,
    RAPHAEL,
    RX_7900_XTX,
    partitions_of,
    put,
    put_properties,
    row_of,
    write_machine,
)
from worker.hardware.choose import gpu_key
from worker.hardware.facts.kfd import (
    find_nodes_dir,
    name_gfx,
    name_pci_address,
    read_nodes,
    read_topology,
)
from worker.hardware.facts.sysfs import read_file


def denying(node_dir):
    """A reader to which the device cgroup refuses one node, as the kernel does."""

    def read(path):
        if path.startswith(f"{node_dir}/"):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        return read_file(path)

    return read


@pytest.mark.parametrize(
    ("version", "gfx"),
    [
        (80003, "gfx803"),
        (90008, "gfx908"),
        (90010, "gfx90a"),
        (90012, "gfx90c"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (100300, "gfx1030"),
        (100302, "gfx1032"),
        (110003, "gfx1103"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (109999, None),
        (101600, None),
    ],
)
def test_the_target_is_named_by_major_minor_and_stepping_in_hexadecimal(version, gfx):
    assert name_gfx(version) == gfx


@pytest.mark.parametrize(
    ("location", "domain", "address"),
    [(34304, 0, "0000:86:00.0"), (25600, 0, "0000:64:00.0"), (0x0309, 1, "0001:03:01.1")],
)
def test_the_pci_address_is_decoded_from_the_location(location, domain, address):
    assert name_pci_address(location, domain=domain) == address


def test_a_discrete_gpu_is_read_completely(tmp_path):
    (gpu,) = read_topology(write_machine(tmp_path, [RX_7900_XTX]).topology_dir)
    assert (gpu.node, gpu.gfx, gpu.cu_count, gpu.wgp_count) == (1, "gfx1100", 96, 48)
    assert (gpu.wave_size, gpu.vram_bytes, gpu.max_clock_mhz) == (32, 24 * GIB, 2482)
    assert (gpu.pci_address, gpu.render_minor) == ("0000:03:00.0", 128)
    assert (gpu.unique_id, gpu.uuid) == (RX_7900_XTX.unique_id, "GPU-a200000000000001")
    assert (gpu.vendor_id, gpu.device_id, gpu.num_xcc) == (0x1002, 0x744C, 1)
    assert gpu.is_accessible
    assert gpu.hive_id is None
    assert gpu.partition is None


def test_units_are_not_paired_if_waves_have_64_lanes(tmp_path):
    (gpu,) = read_topology(write_machine(tmp_path, [MI300X]).topology_dir)
    assert (gpu.cu_count, gpu.wave_size, gpu.wgp_count) == (304, 64, None)


def test_a_unique_id_of_zero_is_reported_but_names_no_gpu(tmp_path):
    (gpu,) = read_topology(write_machine(tmp_path, [RAPHAEL]).topology_dir)
    assert (gpu.unique_id, gpu.uuid) == (0, None)


def test_partitions_share_address_and_unique_id_and_are_counted(tmp_path):
    beside = replace(RX_7900_XTX, bus=0x83, render_minor=140, card=1)
    machine = write_machine(tmp_path, [*partitions_of(MI300X, 8), beside])
    *partitions, other = read_topology(machine.topology_dir)
    assert [gpu.partition for gpu in partitions] == list(range(8))
    assert {gpu.pci_address for gpu in partitions} == {"0000:03:00.0"}
    assert {gpu.cu_count for gpu in partitions} == {38}
    assert {gpu.unique_id for gpu in partitions} == {MI300X.unique_id}
    assert {gpu.uuid for gpu in partitions} == {None}
    assert len({gpu.render_minor for gpu in partitions}) == 8
    assert other.partition is None


def test_partitions_of_older_kernels_are_numbered_by_function(tmp_path):
    machine = write_machine(tmp_path, partitions_of(MI300X, 2))
    for node, location in ((1, 0x0300), (2, 0x0301)):
        path = machine.node_dir(node) / "properties"
        lines = [line for line in path.read_text().splitlines() if "location_id" not in line]
        put(path, "\n".join([*lines, f"location_id {location}", ""]))
    gpus = read_topology(machine.topology_dir)
    assert [(gpu.partition, gpu.pci_address) for gpu in gpus] == [
        (0, "0000:03:00.0"),
        (1, "0000:03:00.0"),
    ]


def test_cards_with_different_ids_are_not_partitions(tmp_path):
    cards = [RX_7900_XTX, replace(RX_7900_XTX, unique_id=7, card=1, render_minor=129)]
    gpus = read_topology(write_machine(tmp_path, cards).topology_dir)
    assert [gpu.partition for gpu in gpus] == [None, None]
    assert [gpu.uuid for gpu in gpus] == ["GPU-a200000000000001", "GPU-0000000000000007"]


def test_nothing_is_known_about_a_gpu_that_is_not_passed_to_this_process(tmp_path):
    machine = write_machine(tmp_path, row_of(RX_7900_XTX, 2))
    first, second = read_topology(machine.topology_dir, read=denying(machine.node_dir(2)))
    assert first.is_accessible
    assert first.gfx == "gfx1100"
    assert not second.is_accessible
    assert second.model_dump(exclude_defaults=True) == {"node": 2, "is_accessible": False}


def test_a_fact_that_is_missing_is_none(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    put_properties(machine.node_dir(1) / "properties", simd_count=192)
    (gpu,) = read_topology(machine.topology_dir)
    told = gpu.model_dump(exclude_defaults=True, exclude={"links"})
    assert told == {"node": 1, "vram_bytes": 24 * GIB}


def test_impossible_values_are_none(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    put_properties(
        machine.node_dir(1) / "properties",
        simd_count=193, simd_per_cu=2, wave_front_size=7, gfx_target_version=2**63,
        drm_render_minor=2**32 - 1, location_id=2**40, unique_id=-1, num_xcc=0, hive_id=0,
    )  # fmt: skip
    (gpu,) = read_topology(machine.topology_dir)
    told = gpu.model_dump(exclude_defaults=True, exclude={"links"})
    assert told == {"node": 1, "vram_bytes": 24 * GIB}


def test_a_node_without_properties_is_a_gpu_if_it_has_a_gpu_id(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    (machine.node_dir(1) / "properties").unlink()
    (machine.node_dir(0) / "properties").unlink()
    assert [gpu.node for gpu in read_topology(machine.topology_dir)] == [1]


def test_old_kernels_report_the_memory_in_the_properties(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    (machine.node_dir(1) / "mem_banks/0/properties").unlink()
    (gpu,) = read_topology(machine.topology_dir)
    assert gpu.vram_bytes is None
    path = machine.node_dir(1) / "properties"
    put(path, path.read_text().replace("local_mem_size 0", f"local_mem_size {8 * GIB}"))
    (gpu,) = read_topology(machine.topology_dir)
    assert gpu.vram_bytes == 8 * GIB


def test_only_the_gpus_own_memory_is_counted(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    banks = machine.node_dir(1) / "mem_banks"
    put_properties(banks / "1/properties", heap_type=2, size_in_bytes=GIB)
    put_properties(banks / "2/properties", heap_type=4, size_in_bytes=65536)
    (gpu,) = read_topology(machine.topology_dir)
    assert gpu.vram_bytes == 25 * GIB


@pytest.mark.parametrize("start", ["kfd/kfd/topology/nodes", "kfd/kfd/topology", "kfd/kfd", "kfd"])
def test_the_topology_is_found_from_any_parent_folder(tmp_path, start):
    write_machine(tmp_path / "kfd" / "kfd", [RX_7900_XTX])
    assert find_nodes_dir(tmp_path / start) == tmp_path / "kfd/kfd/topology/nodes"


def test_cpus_are_nodes_but_not_gpus(tmp_path):
    machine = write_machine(tmp_path, [RX_7900_XTX], num_cpus=2)
    assert [node.is_gpu for node in read_nodes(machine.topology_dir)] == [False, False, True]


def test_without_a_topology_there_is_no_gpu(tmp_path):
    assert read_topology(tmp_path) == []
    assert read_topology(tmp_path / "missing") == []


MI308X_PARTITIONS = partitions_of(replace(MI300X, num_xcc=4, simd_count=320), 4)


def see_only(machine, node):
    """Read the topology as a container that gets one of the GPUs."""
    hidden = [machine.node_dir(other) for other in machine.gpus if other != node]

    def read(path):
        if any(path.startswith(f"{folder}/") for folder in map(str, hidden)):
            raise PermissionError(path)
        return read_file(path)

    (seen,) = [gpu for gpu in read_topology(machine.topology_dir, read=read) if gpu.is_accessible]
    return seen


@pytest.mark.parametrize("node", [1, 2, 3, 4])
def test_a_partition_without_its_siblings_is_still_the_same_partition(tmp_path, node):
    machine = write_machine(tmp_path, MI308X_PARTITIONS)
    on_host = read_topology(machine.topology_dir)[node - 1]
    in_container = see_only(machine, node)
    assert gpu_key(in_container) == gpu_key(on_host) == f"renderD{127 + node}"
    assert (in_container.partition, in_container.uuid) == (on_host.partition, None)
    assert in_container.pci_address == on_host.pci_address


def test_a_partition_of_an_older_kernel_has_the_address_of_its_card(tmp_path):
    machine = write_machine(tmp_path, MI308X_PARTITIONS[:2])
    for node, location in ((1, 0x0300), (2, 0x0301)):
        path = machine.node_dir(node) / "properties"
        lines = [line for line in path.read_text().splitlines() if "location_id" not in line]
        put(path, "\n".join([*lines, f"location_id {location}", ""]))
    assert see_only(machine, 2).pci_address == "0000:03:00.0"


def test_a_whole_card_without_its_neighbours_keeps_its_uuid(tmp_path):
    machine = write_machine(tmp_path, row_of(MI300X, 2))
    seen = see_only(machine, 1)
    assert (seen.partition, seen.uuid) == (None, MI300X.uuid)
    assert gpu_key(seen) == "renderD128"


def test_units_of_gfx1250_are_not_paired_although_its_waves_have_32_lanes(tmp_path):
    card = replace(MI300X, gfx_version=120500, wave_size=32)
    (gpu,) = read_topology(write_machine(tmp_path, [card]).topology_dir)
    assert (gpu.gfx, gpu.wave_size, gpu.wgp_count) == ("gfx1250", 32, None)
