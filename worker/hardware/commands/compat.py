"""`python -m worker.hardware compat`: what fits together, and the smallest change that helps.

Exit status: 0 if everything fits, 1 if something has to change, 2 if no change helps.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from worker.hardware.commands.doctor import PIPE_WIDTH, find_evidence
from worker.hardware.compat.graph import Graph, load_graph
from worker.hardware.compat.judge import Compatibility, judge
from worker.hardware.compat.machine import stack_of
from worker.hardware.compat.page import print_card, print_machine
from worker.hardware.doctor.evidence import Evidence, name_of
from worker.hardware.facts.targets import Target, find_target, load_targets
from worker.settings import WorkerSettings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which card, and how to print."""
    parser.epilog = (
        "Exit status: 0 if everything fits, 1 if something has to change, 2 if no change helps."
    )
    parser.add_argument(
        "--gfx", help="everything known of this target (gfx1100); by default this machine's GPUs"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="also draw the graph: .svg or .png"
    )
    parser.add_argument(
        "--topology", type=Path, metavar="DIR", help="read the GPUs from a copied KFD topology"
    )
    parser.add_argument("--drm", type=Path, metavar="DIR", help="read the cards from a copy")
    parser.add_argument("--inventory", type=Path, metavar="FILE", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print a card, or this machine's cards; return the worst exit status."""
    graph = load_graph()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    if arguments.gfx is not None:
        return _run_card(arguments, graph, console)
    evidence = find_evidence(arguments, WorkerSettings())
    found = judge_machine(evidence, graph)
    if not found:
        sys.stderr.write(
            "There is no AMD GPU here whose architecture is known. Name one: --gfx gfx1100\n"
        )
        return 2
    if arguments.json:
        content = {"graph": graph.version, "gpus": [asdict_of(each) for each in found.values()]}
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
    else:
        for number, (title, each) in enumerate(found.items()):
            if number:
                console.print()
            print_machine(console, each, title=title)
    if arguments.picture is not None:
        _draw(arguments.picture, graph, next(iter(found.values())))
    return max(_status(each) for each in found.values())


def judge_machine(evidence: Evidence, graph: Graph | None = None) -> dict[str, Compatibility]:
    """Judge each known GPU of a machine, by its name; the discrete ones first."""
    known = [gpu for gpu in evidence.gpus if gpu.gfx and find_target(gpu.gfx)]
    ordered = sorted(known, key=lambda gpu: gpu.is_apu is not False)
    return {
        name_of(gpu): judge(
            gpu.gfx or "", stack_of(evidence, pci_address=gpu.pci_address), graph=graph
        )
        for gpu in ordered
    }


def asdict_of(found: Compatibility) -> dict[str, Any]:
    """Return a result as JSON's types."""
    content = asdict(found)
    content["release"] = found.release.model_dump(mode="json") if found.release else None
    return content | {"is_supported": found.is_supported}


def _run_card(arguments: argparse.Namespace, graph: Graph, console: Console) -> int:
    target = find_target(arguments.gfx)
    if target is None:
        known = ", ".join(load_targets())
        sys.stderr.write(f"--gfx {arguments.gfx} is not in the table of targets. Known: {known}\n")
        return 2
    if arguments.json:
        sys.stdout.write(json.dumps(_describe(target, graph), indent=2) + "\n")
    else:
        print_card(console, target, graph)
    if arguments.picture is not None:
        _draw(arguments.picture, graph, target)
    return 0 if target.blocking is None and graph.releases_for(target) else 2


def _describe(target: Target, graph: Graph) -> dict[str, Any]:
    return {
        "graph": graph.version,
        "gfx": target.gfx,
        "cards": target.cards,
        "blocked_by": target.blocking.model_dump() if target.blocking else None,
        "edges": [edge.model_dump(mode="json") for edge in graph.edges_of(target.gfx)],
        "releases": [release.model_dump(mode="json") for release in graph.releases_for(target)],
    }


def _draw(path: Path, graph: Graph, what: Compatibility | Target) -> None:
    os.environ.setdefault("MPLBACKEND", "agg")
    # Imported here, because matplotlib takes a second to import.
    from worker.hardware.compat.picture import draw_graph

    draw_graph(path, graph, what)
    sys.stderr.write(f"Wrote {path}.\n")


def _status(found: Compatibility) -> int:
    if found.reason:
        return 2
    return 1 if found.changes else 0
