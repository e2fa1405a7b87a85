"""`redkiln run --local`: a script handed to the worker's own code, without a queue."""

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.text import Text

from redkiln.cli.command import Session
from redkiln.cli.problems import UsageError
from redkiln.cli.specfile import SpecSource
from redkiln.tasks import SpecError, parse_spec

LOCAL_MODULE = "worker.script"
"""Runs a script without a queue; it lies beside this package in a checkout and in the images."""
USED = ("task", "name", "script.command", "script.env", "script.requirements", "resources.device",
        "resources.gpus")  # fmt: skip
"""Fields of a spec that mean something without a queue."""


def run_here(
    session: Session, source: SpecSource, *, data: Path | None, code: Path, folder: Path | None
) -> int:
    """Run a script here and now; its own exit status.

    Ctrl-C and SIGTERM are for the script, which ends when it has saved what it wants to.

    Args:
        session: says what of the spec is not used here.
        source: the spec as it would be queued, without code and data set.
        data: what stands for {data}.
        code: the folder that it starts in.
        folder: for the results; `out/NAME` of the job if it is None.

    Raises:
        UsageError: the spec or a path is wrong, or this installation has no worker.
    """
    package = LOCAL_MODULE.partition(".")[0]
    found = importlib.util.find_spec(package)
    if found is None or importlib.util.find_spec(LOCAL_MODULE) is None:
        raise UsageError(
            "--local needs the worker beside this command: run it from a checkout of Redkiln, or "
            "in the worker's container. Without --local it goes to the queue"
        )
    _check(source)
    if not code.is_dir():
        raise UsageError(f"--code {code}: there is no such folder")
    if data is not None:
        data = data.expanduser()
        if not data.exists():
            raise UsageError(
                f"--dataset {data}: there is no such file or folder here. --local reads data where "
                "it lies, and knows no data sets of the service"
            )
    if unused := sorted(_find_unused(source.value)):
        session.note(Text(f"not used without the queue: {', '.join(unused)}", style="yellow"))
    out = folder or Path("out") / str(source.value.get("name") or "local")
    command = [sys.executable, "-m", LOCAL_MODULE, "local", "--out", str(out), "--code", str(code)]
    given = ["--spec", json.dumps(source.value), *(["--data", str(data)] if data else [])]
    with (
        _interrupts_left_to_the_child(),
        subprocess.Popen([*command, *given]) as child,
        _passing_on(signal.SIGTERM, child),
    ):
        status = child.wait()
    return status if status >= 0 else 128 - status


def _check(source: SpecSource) -> None:
    try:
        parse_spec(source.value)
    except SpecError as error:
        lines = [
            f"{source.locate(problem.pointer) or ''}  {problem.pointer}: {problem.message}".strip()
            for problem in error.problems
        ]
        raise UsageError("\n".join(lines)) from error


def _find_unused(value: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, inner in value.items():
        path = f"{prefix}{name}"
        if path in USED:
            continue
        if isinstance(inner, dict) and any(used.startswith(f"{path}.") for used in USED):
            yield from _find_unused(inner, f"{path}.")
        else:
            yield path


@contextmanager
def _interrupts_left_to_the_child() -> Iterator[None]:
    """The terminal sends Ctrl-C to the child, too; it inherits SIG_IGN, but no handler."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _passing_on(number: signal.Signals, child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """What is sent to this process the child gets, once."""

    def pass_on(*_: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        child.send_signal(number)

    before = signal.signal(number, pass_on)
    try:
        yield
    finally:
        signal.signal(number, before)
