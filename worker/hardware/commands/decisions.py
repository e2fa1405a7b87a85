"""`python -m worker.hardware decisions`: what Redkiln decides for each kind of GPU.

Exit status: 0 if at least one kind of GPU is listed, 1 otherwise.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from worker.hardware.commands.doctor import PIPE_WIDTH
from worker.hardware.compat.decisions import TargetDecisions, decide_target, find_common_patches
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.targets import find_target, load_targets

LEAST_WIDTH = 120
"""Columns of a terminal from which every value has its own column."""
OVERRIDE = "gfx_override"
"""This patch has a separate column."""
COLUMNS = ("gfx", "trains in", "wheels", "image", "AMD's builds", "override", "patches", "sources")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which kinds of GPU, and how to print."""
    parser.add_argument(
        "--all", action="store_true", help="every kind of GPU since 2017, not only this machine's"
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects")


def run(arguments: argparse.Namespace) -> int:
    """Print the table; return 1 if it is empty."""
    names = list(load_targets()) if arguments.all else _find_here()
    targets = (find_target(name) for name in names)
    decisions = [decide_target(target) for target in targets if target is not None]
    if arguments.json:
        sys.stdout.write(json.dumps([asdict(each) for each in decisions], indent=2) + "\n")
    elif decisions:
        _print(decisions)
    else:
        sys.stderr.write("There is no AMD GPU here whose architecture is known. See --all.\n")
    return 0 if decisions else 1


def _find_here() -> list[str]:
    return list(dict.fromkeys(gpu.gfx for gpu in discover_gpus() if gpu.gfx))


def _print(decisions: Sequence[TargetDecisions]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    common = find_common_patches(decisions) if len(decisions) > 1 else ()
    table = Table(show_lines=True, header_style="bold", pad_edge=False)
    is_narrow = console.width < LEAST_WIDTH
    for name in ("gfx", "decisions") if is_narrow else COLUMNS:
        table.add_column(
            name, overflow="fold", min_width=4, max_width=22 if name == "gfx" else None
        )
    for each in decisions:
        name, *cells = _list_cells(each, common)
        pairs = zip(COLUMNS[1:], cells, strict=True)
        folded = "\n".join(f"{column}: {cell}" for column, cell in pairs)
        table.add_row(name, *([folded] if is_narrow else cells))
    console.print(table)
    if common:
        console.print(f"Patches on every GPU: {', '.join(common)}.")
    console.print(
        "This project has measured none of this on a GPU. Self-tests, probes and benchmarks on the "
        "machine itself can change it."
    )


def _list_cells(each: TargetDecisions, common: Sequence[str]) -> list[str]:
    return [
        f"{each.gfx}\n{each.cards}",
        each.precision,
        each.wheels,
        each.images,
        each.checked,
        each.override or "never",
        _describe_patches(each, common),
        f"{'; '.join(each.sources)} ({each.date})",
    ]


def _describe_patches(each: TargetDecisions, common: Sequence[str]) -> str:
    own = [name for name in each.patches if name not in common]
    refused = (name for name in each.refused_patches if name != OVERRIDE)
    return ", ".join([*own, *(f"not {name}" for name in refused)]) or "-"
