from redkiln.views.hardware import GpuFacts, GpuTelemetry
from worker.hardware.doctor.evidence import Process
from worker.hardware.doctor.table.readings import read_gpus

GIB = 1024**3
CARD = GpuFacts(
    node=1,
    gfx="gfx1100",
    name="Radeon RX 7900 XTX",
    card=0,
    is_apu=False,
    pci_address="0000:03:00.0",
    telemetry=GpuTelemetry(
        busy_ratio=0.5,
        vram_total_bytes=24 * GIB,
        vram_used_bytes=GIB,
        edge_celsius=50.0,
        junction_celsius=61.0,
        power_watts=100.0,
        power_cap_watts=339.0,
    ),
)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def read(root, gpu=CARD, processes=()):
    (state,) = read_gpus(
        [gpu],
        root=root,
        topology_dir=root / "topology",
        drm_dir=root / "drm",
        processes=processes,
    )
    return state


def test_a_card_is_read_from_its_files(tmp_path):
    device = tmp_path / "drm/card0/device"
    write(device / "current_link_width", "8\n")
    write(device / "max_link_width", "16\n")
    write(device / "current_link_speed", "16.0 GT/s PCIe\n")
    write(device / "mem_info_vram_total", f"{24 * GIB}\n")
    write(device / "mem_info_vis_vram_total", f"{GIB // 4}\n")
    write(device / "ras/features", "feature mask: 0x5f\n")
    write(device / "ras/umc_err_count", "ue: 2\nce: 17\n")
    write(tmp_path / "topology/nodes/1/gpu_id", "29772\n")
    write(tmp_path / "sys/class/kfd/kfd/proc/4211/vram_29772", f"{3 * GIB}\n")
    state = read(tmp_path, processes=[Process(4211, "ollama"), Process(7, "other")])
    assert (state.celsius, state.power_watts, state.power_cap_watts) == (61.0, 100.0, 339.0)
    assert (state.link_width, state.link_max_width) == (8, 16)
    assert state.has_resizable_bar is False
    assert (state.has_ecc, state.num_errors) == (True, 2)
    assert [(p.pid, p.memory_bytes) for p in state.processes] == [(4211, 3 * GIB)]


def test_what_the_files_do_not_say_is_unknown(tmp_path):
    state = read(tmp_path, GpuFacts(gfx="gfx1100"))
    assert (state.link_width, state.has_resizable_bar, state.has_ecc) == (None, None, None)
    assert (state.memory_bytes, state.celsius, state.processes) == (None, None, [])


def test_an_apu_shows_what_it_may_borrow_and_no_slot(tmp_path):
    write(tmp_path / "drm/card0/device/current_link_width", "16\n")
    borrowed = GpuTelemetry(gtt_total_bytes=64 * GIB, gtt_used_bytes=GIB, vram_total_bytes=GIB // 2)
    state = read(tmp_path, CARD.model_copy(update={"is_apu": True, "telemetry": borrowed}))
    assert (state.memory_used_bytes, state.memory_bytes) == (GIB, 64 * GIB)
    assert (state.link_width, state.has_resizable_bar) == (None, None)
