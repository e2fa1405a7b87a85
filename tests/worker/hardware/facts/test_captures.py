"""Trees of real machines, published by others, read to what they hold and no further."""

from pathlib import Path

import pytest

from tests.worker.hardware.trees import put
from worker.hardware.facts.discover import discover_gpus

CAPTURES = Path(__file__).parents[5] / "shared" / "captures" / "kfd"
pytestmark = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason="the captures of real machines are not next to this checkout"
)


def discover(machine, *, drm=None):
    root = CAPTURES / machine
    return discover_gpus(
        topology_dir=root, drm_dir=root if drm is None else drm, with_telemetry=True
    )


def told(model, *names):
    return {name: getattr(model, name) for name in names}


def test_phoenix_is_a_processor_gpu_with_the_host_s_memory():
    (gpu,) = discover("lact-phoenix")
    facts = gpu.model_dump(exclude={"links", "telemetry", "peak_tflops"}, exclude_none=True)
    assert facts == {
        "node": 1,
        "gfx": "gfx1103",
        "is_gfx_inferred": False,
        "name": "Radeon 780M",
        "cu_count": 12,
        "wgp_count": 6,
        "wave_size": 32,
        "vram_bytes": 31433977856,
        "is_memory_approximate": True,
        "pci_address": "0000:64:00.0",
        "vendor_id": 0x1002,
        "device_id": 0x15BF,
        "unique_id": 0,
        "render_minor": 128,
        "card": 1,
        "is_apu": True,
        "num_xcc": 1,
        "max_clock_mhz": 2700,
        "is_accessible": True,
    }
    (link,) = gpu.links
    assert told(link, "to_node", "kind", "hops", "max_bandwidth_bytes_per_second") == {
        "to_node": 0,
        "kind": "pcie",
        "hops": 1,
        "max_bandwidth_bytes_per_second": 32_000_000_000,
    }
    assert (link.has_atomics_32, link.has_atomics_64) == (True, True)


def test_mi210_machine_has_two_hives_of_four():
    gpus = discover("mi210-8gpu-xgmi-k8s")
    assert [gpu.node for gpu in gpus] == list(range(2, 10))
    assert {(gpu.gfx, gpu.cu_count, gpu.wgp_count, gpu.wave_size) for gpu in gpus} == {
        ("gfx90a", 104, None, 64)
    }
    assert {(gpu.vram_bytes, gpu.is_apu, gpu.num_xcc) for gpu in gpus} == {(None, False, 1)}
    assert [gpu.pci_address for gpu in gpus] == [
        f"0000:{bus}:00.0" for bus in ("63", "43", "03", "26", "e3", "c3", "83", "a3")
    ]
    assert [gpu.render_minor for gpu in gpus] == list(range(128, 136))
    assert len({gpu.uuid for gpu in gpus}) == 8
    assert len({gpu.hive_id for gpu in gpus[:4]}) == len({gpu.hive_id for gpu in gpus[4:]}) == 1
    for gpu in gpus:
        fabric = [link for link in gpu.links if link.kind == "xgmi"]
        far = [link for link in gpu.links if link.kind == "pcie" and link.to_pci_address]
        assert [link.hops for link in fabric] == [1, 1, 1]
        assert {link.max_bandwidth_bytes_per_second for link in fabric} == {50_000_000_000}
        assert [link.hops for link in far] == [3, 3, 3, 3]
        assert {link.max_bandwidth_bytes_per_second for link in far} == {None}


def test_mi25_of_an_old_kernel_has_its_target_by_pci_id():
    gpus = discover("mi25-1gpu-k8s")
    assert [gpu.node for gpu in gpus] == [1, 2]
    for gpu in gpus:
        assert (gpu.gfx, gpu.is_gfx_inferred) == ("gfx900", True)
        assert (gpu.cu_count, gpu.wgp_count, gpu.wave_size) == (64, None, 64)
        assert (gpu.vram_bytes, gpu.pci_address) == (17163091968, "0000:19:00.0")
        assert (gpu.num_xcc, gpu.hive_id, gpu.partition) == (None, None, None)
        assert [(link.kind, link.has_atomics_32) for link in gpu.links] == [("pcie", None)]
    assert [gpu.render_minor for gpu in gpus] == [128, 129]
    assert [gpu.uuid for gpu in gpus] == ["GPU-c34ec50444dd0a6c", "GPU-c34ec50444dd0a6d"]


@pytest.mark.parametrize(
    ("file", "gfx", "cu_count", "wgp_count", "wave_size", "address"),
    [
        ("rx7900xtx_tinygrad", "gfx1100", 96, 48, 32, "0000:86:00.0"),
        ("mi100_rocmi", "gfx908", 120, None, 64, "0000:23:00.0"),
    ],
)
def test_a_lone_properties_file(tmp_path, file, gfx, cu_count, wgp_count, wave_size, address):
    content = (CAPTURES / "singles" / f"{file}.properties").read_text()
    put(tmp_path / "nodes/1/properties", content)
    (gpu,) = discover_gpus(topology_dir=tmp_path, drm_dir=None)
    assert (gpu.gfx, gpu.is_gfx_inferred) == (gfx, False)
    assert (gpu.cu_count, gpu.wgp_count, gpu.wave_size) == (cu_count, wgp_count, wave_size)
    assert (gpu.pci_address, gpu.vram_bytes, gpu.links) == (address, None, [])


CARDS = {
    "lact-rx580": (0, "gfx803", 4294967296, 0.11, (44.0, None, None), 41.045, 155.0, 595),
    "lact-vega56": (0, "gfx900", 8573157376, 0.0, (38.0, 38.0, 39.0), 8.0, 260.0, 5),
    "lact-rx5500xt": (1, "gfx1012", None, 0.0, (48.0, 48.0, None), 16.0, 130.0, 0),
    "lact-rx5700xt": (1, "gfx1010", None, 0.0, (58.0, 58.0, 62.0), 29.0, 220.0, 29),
    "lact-rx6600": (1, "gfx1032", None, 0.0, (28.0, 28.0, 26.0), 3.0, 120.0, 1395),
    "lact-rx6900xt": (0, "gfx1030", 17163091968, 0.03, (56.0, 59.0, 54.0), 36.0, 289.0, 0),
    "lact-rx7600s": (1, "gfx1102", None, 0.0, (53.0, 54.0, 60.0), 1.0, 95.0, 0),
    "lact-rx7800xt": (1, "gfx1101", None, 0.02, (24.0, 31.0, 48.0), 32.0, 236.0, 868),
    "lact-rx7900xtx": (0, "gfx1100", None, 0.03, (53.0, 61.0, 68.0), 68.0, 290.0, 0),
    "lact-rx9070": (1, "gfx1201", None, 0.25, (48.0, 52.0, 72.0), 49.0, 200.0, 1944),
}
"""Card number, target, memory, busy, temperatures, power, its cap, fan."""

CLOCKS_MHZ = {
    "lact-rx580": (798.08, 1750),
    "lact-vega56": (26, 167),
    "lact-rx5500xt": (31, 875),
    "lact-rx5700xt": (10, 875),
    "lact-rx6600": (20, 96),
    "lact-rx6900xt": (500, 1000),
    "lact-rx7600s": (0, 96),
    "lact-rx7800xt": (2011, 456),
    "lact-rx7900xtx": (31, 1249),
    "lact-rx9070": (900, 1124),
    "lact-phoenix": (800, 400),
}


@pytest.mark.parametrize("machine", CARDS)
def test_a_lone_card_gives_its_sensors_and_its_target(machine):
    number, gfx, memory, busy, temperatures, power, cap, fan = CARDS[machine]
    (gpu,) = discover(machine)
    assert (gpu.card, gpu.gfx, gpu.is_gfx_inferred) == (number, gfx, True)
    assert (gpu.vram_bytes, gpu.is_apu) == (memory, False)
    assert (gpu.node, gpu.cu_count, gpu.wave_size, gpu.num_xcc) == (None,) * 4
    now = gpu.telemetry
    assert (now.busy_ratio, now.vram_total_bytes) == (busy, memory)
    assert (now.edge_celsius, now.junction_celsius, now.memory_celsius) == temperatures
    assert (now.power_watts, now.power_cap_watts, now.fan_rpm) == (power, cap, fan)


@pytest.mark.parametrize("machine", CLOCKS_MHZ)
def test_clocks_of_real_cards(machine):
    core, memory = CLOCKS_MHZ[machine]
    (gpu,) = discover(machine)
    assert gpu.telemetry.core_clock_hz == pytest.approx(core * 1e6)
    assert gpu.telemetry.memory_clock_hz == pytest.approx(memory * 1e6)


def test_sensors_of_the_processor_gpu():
    (gpu,) = discover("lact-phoenix")
    now = gpu.telemetry.model_dump(exclude={"at", "read_seconds"}, exclude_none=True)
    assert now == {
        "busy_ratio": 0.0,
        "vram_total_bytes": 4294967296,
        "vram_used_bytes": 1272893440,
        "gtt_total_bytes": 31433977856,
        "gtt_used_bytes": 211398656,
        "edge_celsius": 25.0,
        "power_watts": 3.103,
        "core_clock_hz": 800_000_000,
        "memory_clock_hz": 400_000_000,
    }


def test_every_capture_is_in_a_table():
    machines = {path.name for path in CAPTURES.iterdir()}
    assert machines == {*CARDS, *CLOCKS_MHZ, "mi210-8gpu-xgmi-k8s", "mi25-1gpu-k8s", "singles"}
