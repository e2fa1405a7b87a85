"""`python -m worker.hardware facts`: print the GPUs, as files describe them.

Exit status: 0 if there is at least one GPU, 1 otherwise.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redkiln.views.hardware import GpuFacts, GpuTelemetry
from worker.hardware.facts.cards import DRM_DIR
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.kfd import TOPOLOGY_DIR, find_nodes_dir, read_nodes
from worker.hardware.facts.software import read_software
from worker.hardware.facts.sysfs import is_folder
from worker.hardware.facts.targets import find_target

NOT_THERE = "does not exist, or this user may not read it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where to look and how to print."""
    parser.epilog = "Exit status: 0 if there is at least one GPU, 1 otherwise."
    parser.add_argument(
        "--topology",
        type=Path,
        metavar="DIR",
        help=f"a KFD topology or a copy of one (default without --drm: {TOPOLOGY_DIR})",
    )
    parser.add_argument(
        "--drm",
        type=Path,
        metavar="DIR",
        help=f"a folder of card<n>, to read sensors (default without --topology: {DRM_DIR})",
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects")


def run(arguments: argparse.Namespace) -> int:
    """Print the GPUs; return 1 otherwise."""
    is_here = arguments.topology is None and arguments.drm is None
    topology_dir = TOPOLOGY_DIR if is_here else arguments.topology
    drm_dir = DRM_DIR if is_here else arguments.drm
    gpus = discover_gpus(
        topology_dir=topology_dir, drm_dir=drm_dir, with_telemetry=drm_dir is not None
    )
    if arguments.json:
        listed = [facts.model_dump(mode="json") for facts in gpus]
        sys.stdout.write(json.dumps(listed, indent=2) + "\n")
        return 0 if gpus else 1
    console = Console(highlight=False)
    if not gpus:
        for line in _explain_nothing(topology_dir, drm_dir, is_here=is_here):
            console.print(line, markup=False, soft_wrap=True)
        return 1
    console.print(_table(gpus))
    for line in _notes(gpus):
        console.print(line, markup=False)
    return 0


def _table(gpus: Sequence[GpuFacts]) -> Table:
    table = Table("GPU", "facts", show_lines=True)
    for facts in gpus:
        table.add_row(_title(facts), "\n".join(filter(None, _lines(facts))))
    return table


def _title(facts: GpuFacts) -> str:
    gfx = facts.gfx or ("unknown" if facts.is_accessible else "not passed to this process")
    parts = (
        None if facts.node is None else f"node {facts.node}",
        facts.name,
        f"{gfx} (by PCI id)" if facts.is_gfx_inferred else gfx,
        "APU" if facts.is_apu else None,
        None if facts.partition is None else f"partition {facts.partition}",
    )
    return "\n".join(filter(None, parts))


def _lines(facts: GpuFacts) -> Iterator[str]:
    yield _join(
        (facts.cu_count, "{} CU"),
        (facts.wgp_count, "{} WGP"),
        (facts.num_xcc, "{} XCC"),
        (facts.wave_size, "wave{}"),
        (facts.max_clock_mhz, "up to {} MHz"),
    )
    peaks = _join(*((value, name + " {:g}") for name, value in facts.peak_tflops.items()))
    yield f"peak TFLOPS: {peaks}" if peaks else ""
    yield _join(
        (_gib(facts.vram_bytes), "{} of the host's" if facts.is_memory_approximate else "{}"),
        (_scale(facts.memory_bandwidth_bytes_per_second, 1e9), "{:g} GB/s"),
    )
    yield _join(
        (facts.pci_address, "{}"),
        (facts.render_minor, "renderD{}"),
        (facts.card, "card{}"),
        (facts.drives_display or None, "drives a screen"),
    )
    yield facts.uuid or ""
    yield from _links(facts)
    if facts.telemetry is not None:
        yield _now(facts.telemetry)


def _links(facts: GpuFacts) -> Iterator[str]:
    counted = Counter(
        (link.kind, "GPU" if link.to_pci_address else "CPU", link.hops) for link in facts.links
    )
    for (kind, end, hops), count in counted.items():
        steps = "" if hops is None else f", {hops} hop{'s' * (hops > 1)}"
        yield f"{count} {end}{'s' * (count > 1)} by {kind}{steps}"


def _now(telemetry: GpuTelemetry) -> str:
    now = _join(
        (_scale(telemetry.busy_ratio, 0.01), "{:.0f} % busy"),
        (_gib(telemetry.vram_used_bytes), "{} in use"),
        (telemetry.edge_celsius, "{:.0f} °C"),
        (telemetry.power_watts, "{:.0f} W"),
        (_scale(telemetry.core_clock_hz, 1e6), "{:.0f} MHz"),
    )
    return f"now: {now}" if now else ""


def _join(*parts: tuple[object, str]) -> str:
    return ", ".join(form.format(value) for value, form in parts if value is not None)


def _scale(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _gib(value: int | None) -> str | None:
    return None if value is None else f"{value / 2**30:.1f} GiB"


def _notes(gpus: Sequence[GpuFacts]) -> Iterator[str]:
    for gfx in dict.fromkeys(facts.gfx for facts in gpus if facts.gfx):
        target = find_target(gfx)
        if target is None:
            yield f"{gfx} is not in the table of targets, so its precision is unknown."
            continue
        yield f"{gfx}: {target.family}, trains in {target.precision}; {target.peak_note}".rstrip(
            "; "
        )
        yield from (f"{gfx}: {defect.text} {defect.fix}".rstrip() for defect in target.defects)
    if any(facts.is_memory_approximate for facts in gpus):
        yield "Memory of an APU is the host's memory that it may use, less what others use."


def _explain_nothing(
    topology_dir: Path | None, drm_dir: Path | None, *, is_here: bool
) -> Iterator[str]:
    yield "No AMD GPU found."
    if topology_dir is not None:
        yield f"  {topology_dir}: {_explain_topology(topology_dir, is_here=is_here)}"
    if drm_dir is not None:
        is_there = is_folder(drm_dir)
        yield f"  {drm_dir}: " + ("contains no card of amdgpu." if is_there else NOT_THERE)
    if is_here and read_software().is_wsl:
        yield (
            "  This is WSL2: the GPU is reached through /dev/dxg and has no files here; "
            "ask torch or rocminfo."
        )


def _explain_topology(topology_dir: Path, *, is_here: bool) -> str:
    if find_nodes_dir(topology_dir) is not None:
        count = len(read_nodes(topology_dir))
        return f"{count} node{'s' * (count > 1)}, but no GPU among them."
    if is_folder(topology_dir):
        return "contains no topology; name the folder that contains `nodes`, or one above it."
    if not is_here:
        return NOT_THERE
    return (
        "does not exist; is the amdgpu driver loaded (`sudo modprobe amdgpu`)? "
        "In a container, is /sys the host's?"
    )
