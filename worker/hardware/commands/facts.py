"""`python -m worker.hardware facts`: the GPUs, by what files say.

Exit status: 0 when there is at least one GPU, 1 when there is none.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from redkiln.hardware import GpuFacts
from worker.hardware.cards import DRM_DIR
from worker.hardware.discover import discover_gpus
from worker.hardware.kfd import TOPOLOGY_DIR


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to look, and how to print."""
    parser.add_argument("--topology", type=Path, metavar="DIR", help=f"default: {TOPOLOGY_DIR}")
    parser.add_argument("--drm", type=Path, metavar="DIR", help=f"default: {DRM_DIR}")
    parser.add_argument("--json", action="store_true", help="print a list of objects")


def run(arguments: argparse.Namespace) -> int:
    """Print the GPUs; 1 when there is none."""
    is_here = arguments.topology is None and arguments.drm is None
    gpus = discover_gpus(
        topology_dir=TOPOLOGY_DIR if is_here else arguments.topology,
        drm_dir=DRM_DIR if is_here else arguments.drm,
        with_telemetry=is_here or arguments.drm is not None,
    )
    if arguments.json:
        listed = [facts.model_dump(mode="json") for facts in gpus]
        sys.stdout.write(json.dumps(listed, indent=2) + "\n")
    else:
        Console().print(_table(gpus))
    return 0 if gpus else 1


def _table(gpus: Sequence[GpuFacts]) -> Table:
    table = Table("node", "gfx", "name", "CU", "wave", "memory", "PCI address")
    for facts in gpus:
        memory = "" if facts.vram_bytes is None else f"{facts.vram_bytes / 2**30:.1f} GiB"
        cells = (facts.node, facts.gfx, facts.name, facts.cu_count, facts.wave_size, memory)
        table.add_row(*("" if cell is None else str(cell) for cell in (*cells, facts.pci_address)))
    return table
