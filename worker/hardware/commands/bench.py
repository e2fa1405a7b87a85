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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from redkiln.cli.view.benchmark_page import print_benchmark
from redkiln.events import EventKind
from redkiln.tasks.benchmark import NAME, QUICK
from redkiln.views.benchmark import FILE_NAME, load_result
from redkiln.views.hardware import PatchOutcome
from worker.hardware.commands.run import CACHE_DIR
from worker.hardware.patches import merge_environment
from worker.hardware.program import TorchFacts, ask_torch, decide_for_program, probe_command_of
from worker.jobdir import EXIT_DONE, JobDir, Order, OutputFile

SOURCE_DIR = Path(__file__).resolve().parents[3]
"""Where the package `worker` lies: the folder that the trainer runs in."""
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
    torch = ask_torch(sys.executable, environ=os.environ)
    if torch.problem:
        sys.stderr.write(f"{torch.problem}\n")
        return 1
    device = arguments.device or ("cuda:0" if torch.num_gpus else "cpu")
    patches = [] if device == "cpu" else _decide(torch, os.environ)
    with tempfile.TemporaryDirectory(prefix="redkiln-bench-") as folder:
        job_dir = JobDir(Path(folder))
        order = build_order(arguments, device=device, patches=patches, folder=job_dir.root)
        job_dir.order_path.write_text(order.model_dump_json())
        if _measure(job_dir, environ={**os.environ, **merge_environment(patches)}) != EXIT_DONE:
            sys.stderr.write(job_dir.log_path.read_text()[-2000:])
            return 1
        if arguments.out is not None:
            keep_files(job_dir, arguments.out)
        _print(job_dir.out_dir / FILE_NAME, as_json=arguments.json)
    return 0


def build_order(
    arguments: argparse.Namespace,
    *,
    device: str,
    patches: Sequence[PatchOutcome],
    folder: Path,
) -> Order:
    """The order that the options stand for."""
    measure: dict[str, Any] = dict(QUICK) if arguments.quick else {}
    if arguments.seconds is not None:
        measure["seconds"] = arguments.seconds
    kind = "cpu" if device == "cpu" else "gpu"
    resources: dict[str, Any] = {"device": kind}
    if arguments.gpus > 1:
        resources["gpus"] = arguments.gpus
    return Order(
        job_id="here",
        job_name="benchmark of this machine",
        attempt_id="here",
        spec={"task": NAME, "measure": measure, "resources": resources},
        device=device,
        threads=arguments.threads or len(os.sched_getaffinity(0)),
        cache_dir=str(folder / "cache"),
        patches=list(patches),
    )


def keep_files(job_dir: JobDir, target: Path) -> None:
    """Copy what the job left into a folder.

    Raises:
        OSError: it cannot be written.
    """
    target.mkdir(parents=True, exist_ok=True)
    outputs: list[OutputFile] = job_dir.load_outputs()
    for output in outputs:
        shutil.copyfile(job_dir.out_dir / output.name, target / output.name)


def _decide(torch: TorchFacts, environ: Mapping[str, str]) -> list[PatchOutcome]:
    return decide_for_program(
        torch,
        environ=environ,
        cache_dir=CACHE_DIR.expanduser(),
        probe_command=probe_command_of(sys.executable),
    )


def _print(path: Path, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(path.read_text())
        return
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    print_benchmark(Console(width=width, highlight=False), load_result(path))


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
