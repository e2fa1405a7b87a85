"""How long an inspection of a zip with a million entries takes, and how much memory it needs."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from bench.result import Result, at_most, info
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.order import Order

NUM_ENTRIES = 1_000_000
NUM_CLASSES = 10
MOST_SECONDS = 20.0
MOST_MB = 500.0


def run() -> list[Result]:
    """Inspect empty files, as a hostile upload may have them; their number is what costs."""
    with tempfile.TemporaryDirectory() as folder:
        work_dir = Path(folder)
        path = _pack(work_dir)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        _inspect(path, work_dir)
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    detail = f"{NUM_ENTRIES:,} empty files in {NUM_CLASSES} classes, from listing to refusal"
    processes = f"{detail}; all processes together, on {_num_cores()} cores"
    return [
        at_most("archives/million_seconds", seconds, "s", MOST_SECONDS, detail),
        info("archives/million_cpu_seconds", cpu_seconds, "s", processes),
        at_most(
            "archives/million_memory",
            after.ru_maxrss * 1024 / 1e6,
            "MB",
            MOST_MB,
            "largest process",
        ),
    ]


def _pack(work_dir: Path) -> Path:
    path = work_dir / "million.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(NUM_ENTRIES):
            name = f"train/class{number % NUM_CLASSES}/{number:07d}.png"
            archive.writestr(zipfile.ZipInfo(name), b"")
    return path


def _inspect(path: Path, work_dir: Path) -> None:
    """Run the inspecting process as the service does.

    Raises:
        RuntimeError: The files were not inspected to the end.
    """
    order = Order(
        kind="archive",
        path=str(path),
        num_processes=_num_cores(),
        parent_pid=os.getpid(),
        limits=Limits(),
    )
    order_path = work_dir / "order.json"
    order_path.write_text(order.model_dump_json())
    command = [sys.executable, "-m", "service.datasets.inspect", str(order_path)]
    subprocess.run(command, check=True)
    report = json.loads((work_dir / "report.json").read_text())
    if report["num_skipped"] != NUM_ENTRIES:
        raise RuntimeError(f"the inspection ended early: {report['errors']}")


def _num_cores() -> int:
    return min(8, len(os.sched_getaffinity(0)))
