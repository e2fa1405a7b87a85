"""`python -m worker.hardware bench`: measure this machine, without service and queue.

The measuring is done by the trainer, as in a job: a folder with an order goes in, events and files
come out. Exit status: 0 when it was measured, 1 when it failed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from redkiln.benchmark import FILE_NAME, load_result
from redkiln.cli.benchmark_page import print_benchmark
from redkiln.events import EventKind
from redkiln.tasks.benchmark import NAME, QUICK
from worker.hardware.benchmark.children import SOURCE_DIR
from worker.jobdir import EXIT_DONE, JobDir, Order, OutputFile

LOOK_SECONDS = 0.1
PIPE_WIDTH = 200
"""Columns where the output is no terminal: nothing is to be cut there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, and where the files go."""
    parser.epilog = "Nothing else should run meanwhile: stop the worker, or use `redkiln bench`."
    parser.add_argument("--quick", action="store_true", help="the essentials, in half a minute")
    parser.add_argument("--seconds", type=float, help="time for all of it; 180 if not given")
    parser.add_argument("--device", help="torch's name of it; the first GPU, else cpu")
    parser.add_argument("--gpus", type=int, default=1, help="how many, for the all-reduce")
    parser.add_argument("--threads", type=int, help="CPU threads; all cores if not given")
    parser.add_argument("--out", type=Path, metavar="DIR", help="leave JSON, picture and report")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print; 1 when it failed."""
    with tempfile.TemporaryDirectory(prefix="redkiln-bench-") as folder:
        job_dir = JobDir(Path(folder))
        device = arguments.device or find_device()
        order = build_order(arguments, device=device, folder=job_dir.root)
        job_dir.order_path.write_text(order.model_dump_json())
        status = _measure(job_dir, environ=os.environ)
        if status != EXIT_DONE:
            sys.stderr.write(job_dir.log_path.read_text()[-2000:])
            return 1
        if arguments.out is not None:
            keep_files(job_dir, arguments.out)
        path = job_dir.out_dir / FILE_NAME
        if arguments.json:
            sys.stdout.write(path.read_text())
        else:
            width = None if sys.stdout.isatty() else PIPE_WIDTH
            print_benchmark(Console(width=width, highlight=False), load_result(path))
    return 0


def build_order(arguments: argparse.Namespace, *, device: str, folder: Path) -> Order:
    """The order that the options stand for."""
    measure: dict[str, Any] = dict(QUICK) if arguments.quick else {}
    if arguments.seconds is not None:
        measure["seconds"] = arguments.seconds
    kind = "cpu" if device == "cpu" else "gpu"
    resources = {"device": kind, "gpus": arguments.gpus}
    return Order(
        job_id="here",
        job_name="benchmark of this machine",
        attempt_id="here",
        spec={"task": NAME, "measure": measure, "resources": resources},
        device=device,
        threads=arguments.threads or len(os.sched_getaffinity(0)),
        cache_dir=str(folder / "cache"),
    )


def find_device() -> str:
    """The first GPU that torch sees, else the CPU; asked in a process of its own."""
    command = [sys.executable, "-m", "worker.trainer.inventory"]
    told = subprocess.run(command, cwd=SOURCE_DIR, capture_output=True, text=True, check=True)
    return "cuda:0" if json.loads(told.stdout)["gpus"] else "cpu"


def keep_files(job_dir: JobDir, target: Path) -> None:
    """Copy what the job left into a folder.

    Raises:
        OSError: it cannot be written.
    """
    target.mkdir(parents=True, exist_ok=True)
    outputs: list[OutputFile] = job_dir.load_outputs()
    for output in outputs:
        shutil.copyfile(job_dir.out_dir / output.name, target / output.name)


def _measure(job_dir: JobDir, *, environ: Mapping[str, str]) -> int:
    """Run the trainer and repeat what it says; its exit status."""
    with job_dir.log_path.open("wb") as log:
        trainer = subprocess.Popen(
            [sys.executable, "-m", "worker.trainer", str(job_dir.root)],
            cwd=SOURCE_DIR,
            env={**environ, "REDKILN_PARENT_PID": str(os.getpid())},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
    try:
        for event in _follow(job_dir.events_path, trainer):
            _say(event)
        return trainer.wait()
    except KeyboardInterrupt:
        trainer.terminate()
        trainer.wait()
        raise SystemExit(130) from None


def _follow(path: Path, trainer: "subprocess.Popen[bytes]") -> Iterator[dict[str, Any]]:
    """The events of a process, each as soon as its line is whole, until it has ended."""
    offset = 0
    while True:
        has_ended = trainer.poll() is not None
        content = path.read_bytes()[offset:] if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        offset += len(whole)
        yield from map(json.loads, whole.splitlines())
        if has_ended:
            return
        time.sleep(LOOK_SECONDS)


def _say(event: dict[str, Any]) -> None:
    data = event["data"]
    text = data.get("text") or data.get("message")
    if event["kind"] in (EventKind.MESSAGE, EventKind.WARNING, EventKind.FAILURE) and text:
        sys.stderr.write(f"{text}\n")
