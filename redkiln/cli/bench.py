"""The command that benchmarks GPUs and recommends settings for training."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from redkiln.cli.arguments.specfile import SpecSource
from redkiln.cli.artifacts import fetch
from redkiln.cli.command import Session, command
from redkiln.cli.exit_codes import ExitCode
from redkiln.cli.jobs import Assignments, print_detached
from redkiln.cli.output_folder import choose_folder
from redkiln.cli.problems import UsageError
from redkiln.cli.view.benchmark_page import print_benchmark, print_side_by_side
from redkiln.cli.view.live import follow_job, screen_for
from redkiln.cli.view.result import Result, load_result, print_result
from redkiln.cli.view.suite_page import print_suites
from redkiln.errors import ConnectionFailed
from redkiln.references import list_references, load_reference
from redkiln.spec.problems import plain_message
from redkiln.tasks.benchmark import NAME, QUICK
from redkiln.views.benchmark import FILE_NAME, BenchmarkResult, compare_results
from redkiln.views.benchmark import load_result as load_benchmark
from redkiln.views.job import JobView
from redkiln.views.suite import SuiteResult, compare_scores, load_suite


def register(app: typer.Typer) -> None:
    """Add this command to the application."""
    command(app, "bench", rich_help_panel="Service", examples=(
        "redkiln bench                                # three minutes, everything",
        "redkiln bench --quick                        # half a minute, the essentials",
        "redkiln bench --gpus 2 -o two-cards          # includes the all-reduce",
        "redkiln bench --set measure.seconds=600      # longer, for steadier numbers",
        "redkiln bench --suite ai -o ai               # fixed networks, with a score",
        "redkiln bench --json > here.json             # for --compare or for a program",
        "redkiln bench --compare here.json there.json # two machines side by side",
    ))(bench)  # fmt: skip


def bench(
    session: Session,
    num_gpus: Annotated[
        int, typer.Option("--gpus", min=1, max=64, help="Number of GPUs; 2 or more measure the "
                          "all-reduce.")
    ] = 1,
    is_quick: Annotated[
        bool, typer.Option("--quick", help="Measure only the essentials, in half a minute.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="Folder for the JSON, the picture and the report (default ./out/JOB_NAME).",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare", metavar="A.json B.json", help="Measure nothing; print two earlier results "
            "side by side. One may be the name of a shipped result of the suite, such as cpu.",
            show_default=False,
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option("--suite", metavar="ai", help="Run a fixed set of networks on this machine "
                     "and print its score.", show_default=False),
    ] = None,
    with_onnx: Annotated[
        bool, typer.Option("--onnx", help="With --suite: also ONNX Runtime's providers.")
    ] = False,
    assignments: Assignments = None,
) -> None:  # fmt: skip
    """Measure what a GPU can do, and recommend settings for training.

    Queues a benchmark as a job, so that nothing else runs on the GPU at the
    same time, shows it live, prints the numbers and the recommendations, and
    downloads both with a picture. Ctrl-C detaches; the job continues.
    """
    if compare is not None:
        _compare(session, *compare)
        return
    if suite is not None:
        options = ["--quick"] * is_quick + ["--onnx"] * with_onnx
        raise typer.Exit(_run_suite(session, suite, folder, options))
    result, target = _measure(session, build_spec(assignments, num_gpus, is_quick=is_quick), folder)
    measured = _load(target / FILE_NAME)
    if session.is_json:
        session.emit(measured.model_dump(mode="json", by_alias=True))
    else:
        print_benchmark(session.out, measured)
        session.say("")
        session.say(f"files  {target}/")
    raise typer.Exit(result.exit_code)


def _run_suite(session: Session, suite: str, folder: Path | None, options: list[str]) -> int:
    if suite != "ai":
        raise UsageError(f"--suite {suite} does not exist. The only suite is `ai`.")
    if importlib.util.find_spec("worker") is None:
        raise UsageError(
            "This installation has only the client, not the worker, which runs the suite. In a "
            "container: docker compose exec worker python -m worker.hardware bench --suite ai"
        )
    options += ["--json"] if session.is_json else []
    options += ["--out", str(folder.absolute())] if folder else []
    command = [sys.executable, "-m", "worker.hardware", "bench", "--suite", suite, *options]
    return subprocess.run(command, check=False).returncode


def build_spec(assignments: Assignments, num_gpus: int, *, is_quick: bool) -> SpecSource:
    """Build the benchmark's spec from the command's options."""
    spec: dict[str, Any] = {"task": NAME}
    if is_quick:
        spec["measure"] = dict(QUICK)
    if num_gpus > 1:
        spec["resources"] = {"gpus": num_gpus}
    source = SpecSource(spec, {"/resources/gpus": "--gpus", "/measure": "--quick"})
    source.assign(assignments or ())
    return source


def _measure(session: Session, source: SpecSource, folder: Path | None) -> tuple[Result, Path]:
    session.locate = source.locate
    job = _submit(session, source)
    screen = screen_for(session.live)
    try:
        ended = follow_job(session.client, job.id, screen)
    except KeyboardInterrupt:
        print_detached(session, job.id)
        session.note(f"After it ends, download its numbers: redkiln download {job.id}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    result = load_result(session.client, ended)
    if result.exit_code is not ExitCode.OK:
        print_result(session.live, result, warned=screen.warned)
        raise typer.Exit(result.exit_code)
    target = folder or choose_folder(Path("out"), ended)
    fetch(session, ended, result.artifacts, target)
    return result, target


def _submit(session: Session, source: SpecSource) -> JobView:
    try:
        return session.client.submit(source.value)
    except ConnectionFailed:
        if importlib.util.find_spec("worker") is not None:
            session.note("Without a service, this machine alone: python -m worker.hardware bench")
        raise


def _compare(session: Session, first: Path, second: Path) -> None:
    if (suites := _load_suites(first, second)) is not None:
        if session.is_json:
            session.emit(compare_scores(*suites))
        else:
            print_suites(session.out, *suites)
        return
    results = (_load(first), _load(second))
    if session.is_json:
        rows = compare_results(*results)
        session.emit([row.model_dump(mode="json") | {"ratio": row.ratio} for row in rows])
    else:
        print_side_by_side(session.out, *results)


def _load_suites(first: Path, second: Path) -> tuple[SuiteResult, SuiteResult] | None:
    """Return two results of the suite; None if they are something else."""
    try:
        return _load_suite(first), _load_suite(second)
    except (OSError, ValueError):
        return None


def _load_suite(path: Path) -> SuiteResult:
    if path.exists():
        return load_suite(path)
    shipped = load_reference(str(path))
    if shipped is None:
        names = ", ".join(list_references())
        raise UsageError(f"file not found: {path}; results that ship with redkiln: {names}")
    return shipped


def _load(path: Path) -> BenchmarkResult:
    try:
        return load_benchmark(path)
    except ValidationError as error:
        first = error.errors()[0]
        place = "/".join(str(part) for part in first["loc"])
        message = plain_message(first["msg"])
        reason = f"{place}: {message}" if place else message
        raise UsageError(f"{path} is not a benchmark result of redkiln: {reason}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} cannot be read: {reason}") from error
