"""Small made trees of `/sys/class/kfd/kfd/topology` and `/sys/class/drm`, as a driver writes them.

machine = write_machine(tmp_path, [RX_7900_XTX, RAPHAEL])
discover_gpus(topology_dir=machine.topology_dir, drm_dir=machine.drm_dir)
"""

from dataclasses import dataclass, replace
from pathlib import Path

GIB = 2**30
AMD = 0x1002


@dataclass(frozen=True)
class FakeGpu:
    """What a made tree says of one GPU; the defaults are those of an RX 7900 XTX."""

    gfx_version: int = 110000
    device_id: int = 0x744C
    revision: int = 0xC8
    simd_count: int = 192
    simd_per_cu: int = 2
    wave_size: int = 32
    clock_mhz: int = 2482
    vram_bytes: int = 24 * GIB
    vram_used_bytes: int = 300 * 2**20
    gtt_bytes: int = 31 * GIB
    is_apu: bool = False
    bus: int = 3
    domain: int = 0
    partition: int = 0
    render_minor: int = 128
    card: int | None = 0
    unique_id: int = 0xA200000000000001
    hive_id: int = 0
    num_xcc: int = 1
    busy_percent: int = 5
    has_screen: bool = False
    link_flags: int = 1

    @property
    def pci_address(self):
        return f"{self.domain:04x}:{self.bus:02x}:00.0"

    @property
    def uuid(self):
        return f"GPU-{self.unique_id:016x}"


RX_7900_XTX = FakeGpu()
RX_6800_XT = FakeGpu(
    gfx_version=100300,
    device_id=0x73BF,
    revision=0xC1,
    simd_count=144,
    clock_mhz=2250,
    vram_bytes=16 * GIB,
    unique_id=0xB200000000000001,
)
RAPHAEL = FakeGpu(
    gfx_version=100306,
    device_id=0x164E,
    revision=0xC1,
    simd_count=4,
    clock_mhz=2200,
    vram_bytes=512 * 2**20,
    vram_used_bytes=100 * 2**20,
    is_apu=True,
    bus=0x10,
    render_minor=129,
    card=1,
    unique_id=0,
    has_screen=True,
)
MI300X = FakeGpu(
    gfx_version=90402,
    device_id=0x74A1,
    revision=0,
    simd_count=1216,
    simd_per_cu=4,
    wave_size=64,
    clock_mhz=2100,
    vram_bytes=192 * GIB,
    hive_id=0xC0FFEE,
    num_xcc=8,
)


@dataclass(frozen=True)
class Machine:
    """Where a made machine's trees lie, and which KFD node is which GPU."""

    root: Path
    topology_dir: Path
    drm_dir: Path
    gpus: dict[int, FakeGpu]

    def node_dir(self, node):
        return self.topology_dir / "nodes" / str(node)

    def device_dir(self, card):
        return self.drm_dir / f"card{card}" / "device"


def row_of(gpu, count):
    """Several cards of one kind, each with its own address, render node, card number and id."""
    return [
        replace(
            gpu,
            bus=gpu.bus + 0x10 * place,
            render_minor=gpu.render_minor + place,
            card=None if gpu.card is None else gpu.card + place,
            unique_id=gpu.unique_id + place if gpu.unique_id else 0,
        )
        for place in range(count)
    ]


def partitions_of(gpu, count):
    """One card cut into partitions (CPX): same address and unique id, the units shared out."""
    return [
        replace(
            gpu,
            partition=place,
            render_minor=gpu.render_minor + place,
            simd_count=gpu.simd_count // count,
            vram_bytes=gpu.vram_bytes // count,
            num_xcc=max(gpu.num_xcc // count, 1),
            card=gpu.card if place == 0 else None,
        )
        for place in range(count)
    ]


def write_machine(root, gpus, *, num_cpus=1, has_xgmi=False):
    """Write both trees; GPUs follow the CPUs and hang on the CPUs' PCIe in equal shares.

    Args:
        root: folder to write to.
        gpus: in the order of their nodes.
        num_cpus: CPU nodes.
        has_xgmi: GPUs of one hive are joined by direct links of one hop.
    """
    nodes = {num_cpus + place: gpu for place, gpu in enumerate(gpus)}
    machine = Machine(root, root / "topology", root / "drm", nodes)
    machine.drm_dir.mkdir(parents=True, exist_ok=True)
    put(machine.topology_dir / "system_properties", "platform_oem 0\nplatform_rev 2\n")
    share = -(-len(gpus) // num_cpus)
    cpu_of = {node: (node - num_cpus) // share for node in nodes}
    for cpu in range(num_cpus):
        _write_cpu(machine, cpu, num_cpus=num_cpus, cpu_of=cpu_of)
    for node, gpu in nodes.items():
        _write_node(machine, node, gpu)
        _write_links(machine, node, cpu_of=cpu_of, has_xgmi=has_xgmi)
        if gpu.card is not None:
            write_card(machine.drm_dir, gpu)
    return machine


def write_card(drm_dir, gpu):
    """One card of `/sys/class/drm` with its sensors."""
    device = drm_dir / f"card{gpu.card}" / "device"
    memory = {"total": gpu.vram_bytes, "used": gpu.vram_used_bytes}
    put_all(
        device,
        uevent=(
            f"DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:{gpu.device_id:04X}\n"
            f"PCI_SLOT_NAME={gpu.pci_address}\n"
        ),
        vendor=f"0x{AMD:04x}\n",
        device=f"0x{gpu.device_id:04x}\n",
        revision=f"0x{gpu.revision:02x}\n",
        gpu_busy_percent=f"{gpu.busy_percent}\n",
        pp_dpm_sclk="0: 500Mhz\n1: 1200Mhz *\n2: 2500Mhz\n",
        pp_dpm_mclk="0: 96Mhz\n1: 1249Mhz *\n",
        mem_info_gtt_total=f"{gpu.gtt_bytes}\n",
        mem_info_gtt_used="52428800\n",
        **{f"mem_info_vram_{name}": f"{value}\n" for name, value in memory.items()},
    )
    if gpu.unique_id:
        put(device / "unique_id", f"{gpu.unique_id:016x}\n")
    (device / "drm" / f"renderD{gpu.render_minor}").mkdir(parents=True)
    _write_sensors(device / "hwmon" / "hwmon3", gpu)
    screen = "connected" if gpu.has_screen else "disconnected"
    put(drm_dir / f"card{gpu.card}-DP-1" / "status", f"{screen}\n")


def put(path, content):
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def put_all(directory, **contents):
    """Write several files of one folder."""
    for name, content in contents.items():
        put(directory / name, content)


def put_properties(path, **values):
    """Write a file of `key value` lines."""
    put(path, "".join(f"{key} {value}\n" for key, value in values.items()))


def _write_cpu(machine, node, *, num_cpus, cpu_of):
    directory = machine.node_dir(node)
    put_all(directory, gpu_id="0\n", name="\n")
    put_properties(
        directory / "properties",
        cpu_cores_count=16, simd_count=0, wave_front_size=0, simd_per_cu=0, gfx_target_version=0,
        vendor_id=0, device_id=0, location_id=0, domain=0, drm_render_minor=0, hive_id=0,
    )  # fmt: skip
    put_properties(
        directory / "mem_banks/0/properties", heap_type=0, size_in_bytes=64 * GIB, width=64
    )
    cpus = [(1, cpu, 32) for cpu in range(num_cpus) if cpu != node]
    gpus = [(2, gpu, 20) for gpu, cpu in cpu_of.items() if cpu == node]
    for place, (kind, end, weight) in enumerate([*cpus, *gpus]):
        _put_link(directory / f"io_links/{place}", kind, node, end, weight=weight, flags=3)


def _write_node(machine, node, gpu):
    directory = machine.node_dir(node)
    put_all(directory, gpu_id=f"{1000 + node}\n", name="ip discovery\n")
    put_properties(
        directory / "properties",
        cpu_cores_count=0, simd_count=gpu.simd_count, mem_banks_count=1,
        wave_front_size=gpu.wave_size, simd_per_cu=gpu.simd_per_cu,
        gfx_target_version=gpu.gfx_version, vendor_id=AMD, device_id=gpu.device_id,
        location_id=gpu.partition << 28 | gpu.bus << 8, domain=gpu.domain,
        drm_render_minor=gpu.render_minor, hive_id=gpu.hive_id,
        max_engine_clk_fcompute=gpu.clock_mhz, local_mem_size=0, unique_id=gpu.unique_id,
        num_xcc=gpu.num_xcc,
    )  # fmt: skip
    put_properties(
        directory / "mem_banks/0/properties",
        heap_type=1, size_in_bytes=gpu.gtt_bytes if gpu.is_apu else gpu.vram_bytes,
        flags=0, width=384, mem_clk_max=1249,
    )  # fmt: skip


def _write_links(machine, node, *, cpu_of, has_xgmi):
    directory, gpus, cpu = machine.node_dir(node), machine.gpus, cpu_of[node]
    hive, flags = gpus[node].hive_id, gpus[node].link_flags
    others = [other for other in gpus if other != node]
    meshed = [other for other in others if has_xgmi and hive and gpus[other].hive_id == hive]
    _put_link(directory / "io_links/0", 2, node, cpu, weight=20, bandwidth=32000, flags=flags)
    for place, other in enumerate(meshed, start=1):
        _put_link(directory / f"io_links/{place}", 11, node, other, weight=15, bandwidth=50000)
    for place, other in enumerate(other for other in others if other not in meshed):
        weight = 40 if cpu_of[other] == cpu else 72
        _put_link(directory / f"p2p_links/{place}", 2, node, other, weight=weight, flags=flags)


def _put_link(directory, kind, start, end, *, weight, bandwidth=0, flags=1):
    put_properties(
        directory / "properties",
        type=kind, version_major=0, node_from=start, node_to=end, weight=weight, min_latency=0,
        min_bandwidth=0, max_bandwidth=bandwidth, flags=flags,
    )  # fmt: skip


def _write_sensors(hwmon, gpu):
    put_all(
        hwmon,
        name="amdgpu\n",
        temp1_label="edge\n",
        temp1_input="48000\n",
        power1_average="68000000\n",
        freq1_input="1200000000\n",
    )
    if not gpu.is_apu:
        put_all(
            hwmon,
            temp2_label="junction\n",
            temp2_input="61000\n",
            temp3_label="mem\n",
            temp3_input="68000\n",
            power1_cap="290000000\n",
            fan1_input="1200\n",
            freq2_input="1249000000\n",
        )
