"""`python -m bench [NAME ...]`: run the measurements, print a table, write bench/out/latest.json.

Names: training, detection, detector, segmentation, tabular, checkpoint, decode, mapped, text,
accuracy, tables, api, download, latency, queue, lists, page, points, watchers, scripts,
archives, restart, bodies, predict, export, onnx_in, hardware. Without a name, all of them run.
"""

import argparse
import importlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.result import Result

GROUPS = {
    "training": "bench.training.loop",
    "detection": "bench.training.detection",
    "detector": "bench.training.detector",
    "segmentation": "bench.training.segmentation",
    "tabular": "bench.training.tabular",
    "checkpoint": "bench.training.checkpoint",
    "decode": "bench.training.decode",
    "mapped": "bench.training.mapped",
    "text": "bench.training.text",
    "accuracy": "bench.training.accuracy",
    "tables": "bench.accuracy.tables",
    "api": "bench.service.api",
    "download": "bench.service.download",
    "latency": "bench.service.latency",
    "queue": "bench.service.queue",
    "lists": "bench.service.lists",
    "page": "bench.service.first_view",
    "points": "bench.service.points",
    "watchers": "bench.service.watchers",
    "scripts": "bench.service.scripts",
    "archives": "bench.service.archives",
    "restart": "bench.service.restart",
    "bodies": "bench.service.bodies",
    "predict": "bench.export.predict",
    "export": "bench.export.variants",
    "onnx_in": "bench.onnx_in.operators",
    "hardware": "bench.hardware",
}
"""Module of each benchmark, by name."""
OUT_PATH = Path(__file__).parent / "out" / "latest.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen groups; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(GROUPS)}")
    names = parser.parse_args(arguments).names or list(GROUPS)
    unknown = set(names) - set(GROUPS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(GROUPS)}")
    console = Console()
    results: list[Result] = []
    for name in names:
        console.print(f"[bold]{name}[/bold] ...")
        found = importlib.import_module(GROUPS[name]).run()
        console.print(_table(found))
        results += found
    OUT_PATH.parent.mkdir(exist_ok=True)
    OUT_PATH.write_text(json.dumps([result.as_dict() for result in results], indent=1) + "\n")
    console.print(f"{platform.platform()}, {os.cpu_count()} cores; written to {OUT_PATH}")
    return 1 if any(result.ok is False for result in results) else 0


def _table(results: Sequence[Result]) -> Table:
    table = Table("figure", "value", "target", "", "how")
    for result in results:
        verdict = {True: "[green]ok[/green]", False: "[red]missed[/red]", None: ""}[result.ok]
        target = "" if result.target is None else f"{result.target:g}"
        value = f"{result.value:.4g} {result.unit}"
        table.add_row(result.name, value, target, verdict, result.detail)
    return table


if __name__ == "__main__":
    sys.exit(main())
