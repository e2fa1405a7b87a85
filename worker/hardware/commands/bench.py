"""`python -m worker.hardware bench`: measure this machine without a service or a queue.

The trainer measures, as in a job: it reads an order from a folder and leaves events and files.
Exit status: 0 on success, 1 on failure.
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
from redkiln.cli.view.suite_page import print_suite
from redkiln.events import EventKind
from redkiln.tasks.benchmark import NAME, PRECISIONS, QUICK, TESTS
from redkiln.views.benchmark import FILE_NAME, load_result
from redkiln.views.hardware import PatchOutcome
from redkiln.views.suite import SuiteResult
from worker.hardware.commands.run import CACHE_DIR
from worker.hardware.patches import merge_environment
from worker.hardware.program import TorchFacts, ask_torch, decide_for_program, probe_command_of
from worker.jobdir import EXIT_DONE, JobDir, Order, OrderPaths, OutputFile

SOURCE_DIR = Path(__file__).resolve().parents[3]
"""The folder that contains the package `worker`, in which the trainer runs."""
SUITE = "worker.hardware.benchmark.suite"
LOOK_SECONDS = 0.1
PIPE_WIDTH = 200
"""Width of output that is not a terminal; wide, so that nothing is cut off."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to measure and where to put the files."""
    parser.epilog = "Nothing else should run meanwhile: stop the worker, or use `redkiln bench`."
    parser.add_argument("--quick", action="store_true", help="the essentials, in half a minute")
    parser.add_argument(
        "--test", action="append", choices=TESTS, help="run only this test; may be repeated"
    )
    parser.add_argument(
        "--precision",
        action="append",
        choices=PRECISIONS,
        help="measure only this number format; may be repeated",
    )
    parser.add_argument("--seconds", type=float, help="total time in seconds (default: 180)")
    parser.add_argument("--device", help="torch device (default: the first GPU, otherwise cpu)")
    parser.add_argument("--gpus", type=int, default=1, help="number of GPUs for the all-reduce")
    parser.add_argument("--threads", type=int, help="CPU threads (default: all cores)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="save JSON, picture and report")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    suite = parser.add_argument_group("the suite of networks")
    suite.add_argument("--suite", choices=["ai"], help="run fixed networks and print their score")
    suite.add_argument("--networks", nargs="*", metavar="NAME", help="only these networks")
    suite.add_argument("--onnx", action="store_true", help="also ONNX Runtime's providers")
    suite.add_argument("--full", action="store_true", help="the GPU's sizes on a CPU too")


def run(arguments: argparse.Namespace) -> int:
    """Measure and print the result; return 1 on failure."""
    torch = ask_torch(sys.executable, environ=os.environ)
    if torch.problem:
        sys.stderr.write(f"{torch.problem}\n")
        return 1
    device = arguments.device or ("cuda:0" if torch.num_gpus else "cpu")
    patches = [] if device == "cpu" else _decide(torch, os.environ)
    if arguments.suite is not None:
        return _run_suite(arguments, device, {**os.environ, **merge_environment(patches)})
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


def _run_suite(arguments: argparse.Namespace, device: str, environ: Mapping[str, str]) -> int:
    """Run the suite in a process with the patches, and print its result."""
    done = subprocess.run(
        [sys.executable, "-m", SUITE, *build_suite_options(arguments, device)],
        env=dict(environ), cwd=SOURCE_DIR, stdout=subprocess.PIPE, check=False, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        return 1
    if arguments.json:
        sys.stdout.write(done.stdout)
    else:
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        result = SuiteResult.model_validate_json(done.stdout)
        print_suite(Console(width=width, highlight=False), result)
    return 0


def build_suite_options(arguments: argparse.Namespace, device: str) -> list[str]:
    """Return the options of the suite's program for the given options of this command."""
    values = {
        "--device": device,
        "--seconds": arguments.seconds,
        "--threads": arguments.threads,
        "--precision": arguments.precision[0] if arguments.precision else None,
        "--out": arguments.out.absolute() if arguments.out else None,
    }
    options = [word for name, value in values.items() if value is not None
               for word in (name, str(value))]  # fmt: skip
    flags = {"--quick": arguments.quick, "--onnx": arguments.onnx, "--full": arguments.full}
    options += [name for name, is_set in flags.items() if is_set]
    return [*options, *(["--networks", *arguments.networks] if arguments.networks else [])]


def build_order(
    arguments: argparse.Namespace,
    *,
    device: str,
    patches: Sequence[PatchOutcome],
    folder: Path,
) -> Order:
    """Build the order for the given options."""
    measure: dict[str, Any] = dict(QUICK) if arguments.quick else {}
    chosen = {
        "tests": arguments.test,
        "precisions": arguments.precision,
        "seconds": arguments.seconds,
    }
    measure |= {name: value for name, value in chosen.items() if value is not None}
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
        paths=OrderPaths(cache_dir=folder / "cache"),
        patches=list(patches),
    )


def keep_files(job_dir: JobDir, target: Path) -> None:
    """Copy the job's output files into a folder.

    Raises:
        OSError: The folder cannot be written.
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
    """Run the trainer, print its messages, and return its exit status."""
    with job_dir.log_path.open("wb") as log:
        trainer = subprocess.Popen(
            [sys.executable, "-m", "worker.trainer", str(job_dir.root)],
            cwd=SOURCE_DIR,
            env={**environ, "REDKILN_PARENT_PID": str(os.getpid())},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # this process passes Ctrl-C on
        )
    try:
        for event in _follow(job_dir.events_path, trainer):
            _print_event(event)
        return trainer.wait()
    except KeyboardInterrupt:
        trainer.terminate()
        trainer.wait()
        raise SystemExit(130) from None


def _follow(path: Path, trainer: "subprocess.Popen[bytes]") -> Iterator[dict[str, Any]]:
    """Yield a process's events, each as soon as its line is complete, until the process ends."""
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


def _print_event(event: dict[str, Any]) -> None:
    data = event["data"]
    text = data.get("text") or data.get("message")
    if event["kind"] in (EventKind.MESSAGE, EventKind.WARNING, EventKind.FAILURE) and text:
        sys.stderr.write(f"{text}\n")
