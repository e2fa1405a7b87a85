"""`redkiln run --local`: runs a script with the worker's own code, without the queue."""

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

from redkiln.cli.arguments.specfile import SpecSource
from redkiln.cli.command import Session
from redkiln.cli.problems import UsageError
from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec

LOCAL_MODULE = "worker.script"
"""Module that runs a script without the queue; a checkout and the images have it."""
USED = ("task", "name", "script.command", "script.env", "script.requirements", "resources.device",
        "resources.gpus")  # fmt: skip
"""Fields of a spec that also apply without the queue."""


def run_here(
    session: Session, source: SpecSource, *, data: Path | None, code: Path, folder: Path | None
) -> int:
    """Run a script on this machine and return its exit status.

    Ctrl-C and SIGTERM reach the script, which ends once it has saved its state.

    Args:
        session: Session that prints which fields of the spec are not used here.
        source: Spec as it would be queued, without code and data set.
        data: Path that replaces {data}.
        code: Folder that the script starts in.
        folder: Folder for the results; `out/NAME` of the job if it is None.

    Raises:
        UsageError: The spec or a path is wrong, or this installation has no worker.
    """
    package = LOCAL_MODULE.partition(".")[0]
    found = importlib.util.find_spec(package)
    if found is None or importlib.util.find_spec(LOCAL_MODULE) is None:
        raise UsageError(
            "--local needs Redkiln's worker, which this installation lacks. Run the command in a "
            "checkout of Redkiln or in the worker's container, or drop --local to use the queue."
        )
    _check(source)
    if not code.is_dir():
        raise UsageError(f"--code {code}: there is no such folder.")
    if data is not None:
        data = data.expanduser()
        if not data.exists():
            raise UsageError(
                f"--dataset {data}: there is no such file or folder. With --local, give a path on "
                "this machine; data sets of the service cannot be used."
            )
    if unused := sorted(_find_unused(source.value)):
        session.note(Text(f"ignored by --local: {', '.join(unused)}", style="yellow"))
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
    """Ignore Ctrl-C here: the terminal also sends it to the child.

    A handler, unlike SIG_IGN, is not inherited by the child.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _passing_on(number: signal.Signals, child: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Forward the first signal of this number to the child, and ignore later ones."""

    def pass_on(*_: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        child.send_signal(number)

    before = signal.signal(number, pass_on)
    try:
        yield
    finally:
        signal.signal(number, before)
