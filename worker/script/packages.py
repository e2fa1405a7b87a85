"""What a script needs beyond the worker's own packages: an environment layered on the worker's.

The environment is a virtual environment whose packages come before the worker's, which stay
visible through a `.pth` file. pip sees them as installed, so it brings only what is missing or too
old; torch and what was built with it are pinned to what is there, as another build would not run
on this hardware. An environment is kept by the digest of what was asked for and of what it lies
on, so that the next job with the same requirements starts at once: lines that pin their versions
until nobody uses them, others for a day, and those that name the script's own files with its code.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from redkiln.failure import FailureCode
from worker.jobdir import SCRIPT_CACHE_BYTES
from worker.script.heartbeat import Heartbeat
from worker.script.kept import drop_unused, hold_folder
from worker.script.places import Places
from worker.script.variables import is_passed_on
from worker.trainer.failed import TrainingFailed

KEPT = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton-rocm")
"""Never replaced: built together, against one ROCm."""
INSTALL_SECONDS = 3600.0
MAX_TAIL = 4000
MARK = "complete"

NUM_KEPT = 20
"""Environments on a worker; those in use are kept beyond."""
POLL_SECONDS = 1.0
CONFLICT = "The conflict is caused by:"
"""Before the installer's list of who asks for what."""

_FROM_INDEX = re.compile(r"[A-Za-z0-9][\w.-]*\s*(\[[^\]/]*\])?\s*([<>=!~(][^@/]*)?(;.*)?")
"""`name[extra] >= 1, < 2 ; marker`."""
_FROM_NETWORK = re.compile(r"(?![./])[^;]*(?:https?|ssh|git)://")
_ARCHIVE = re.compile(r"\.(?:whl|zip|tar|tgz|tbz|txz|tlz)\b")
_EXACT = re.compile(
    r"\s*[\w.-]+\s*(\[[^\]]*\])?\s*={2,3}\s*[\w.+!-]+\s*(;.*)?(\s--hash=\S+)*\s*(#.*)?"
)

Confine = Callable[[Sequence[str], Path], list[str]]
"""Command line and the folder that it may write -> the command line to be run."""


@dataclass(frozen=True)
class Environment:
    """Where a program finds Python and its packages.

    Attributes:
        folder: of the virtual environment; None: the worker's own.
    """

    folder: Path | None = None

    @property
    def bin_dir(self) -> Path:
        """Goes first on PATH."""
        return Path(sys.executable).parent if self.folder is None else self.folder / "bin"


def build_environment(
    requirements: Sequence[str],
    *,
    cache_dir: Path,
    places: Places,
    say: Callable[[str], None],
    max_bytes: int = SCRIPT_CACHE_BYTES,
    code_digest: str | None = None,
    confine: Confine = lambda command, _writable: list(command),
) -> Environment:
    """The environment that a script's requirements ask for, made now or kept from before.

    It stays as long as this process lives; those that nobody has used for long are removed.

    Args:
        requirements: lines of a requirements file.
        cache_dir: of the worker's jobs.
        places: of the script, whose code a line may name (`./package`).
        say: told what is done, again and again, as it may take minutes.
        max_bytes: of all environments that no job uses.
        code_digest: of the script's code; None where it may change at any time.
        confine: puts what confines the installer in front of it, as packages run code of theirs.

    Raises:
        TrainingFailed: they cannot be installed; in the installer's own words.
    """
    if not requirements:
        return Environment()
    pins = list(find_pins())
    names = f"{', '.join(requirements[:5])}{' ...' if len(requirements) > 5 else ''}"

    def make(folder: Path) -> None:
        say(f"installing {names}")
        _make(folder, requirements, pins, places, confine, Heartbeat(say, "installing"))
        # The installer ran code of others in this folder: it may have left a link of that name.
        (folder / MARK).unlink(missing_ok=True)
        (folder / MARK).touch(exist_ok=False)

    if _is_of_one_job(requirements, code_digest):
        shutil.rmtree(places.environment_dir, ignore_errors=True)
        make(places.environment_dir)
        return Environment(places.environment_dir)
    key = digest(requirements, pins, code_digest=code_digest or "")
    folder = cache_dir / "environments" / key

    def is_whole(folder: Path) -> bool:
        return (folder / MARK).exists()

    waiting = Heartbeat(say, "waiting for another job that installs the same")
    if not hold_folder(folder, make=make, is_whole=is_whole, beat=waiting.beat):
        say(f"the environment of these {len(requirements)} requirements is there already")
    drop_unused(folder.parent, num_kept=NUM_KEPT, max_bytes=max_bytes)
    return Environment(folder)


def find_pins() -> Iterator[str]:
    """Torch and its family, as they are."""
    for name in KEPT:
        try:
            yield f"{name}=={importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue  # the family is not complete everywhere


def digest(requirements: Sequence[str], pins: Sequence[str], *, code_digest: str) -> str:
    """What an environment is kept by: what was asked for, and what it lies on.

    Args:
        requirements: lines of a requirements file.
        pins: see `find_pins`.
        code_digest: stands for the files that a line may name.
    """
    worker = sorted(f"{item.name}=={item.version}" for item in importlib.metadata.distributions())
    facts = [sys.version, sys.prefix, list(requirements), list(pins), worker]
    if any(map(names_files, requirements)):
        facts.append(code_digest)
    if not all(map(_is_exact, requirements)):
        # What an index or a branch has today it may not have tomorrow.
        facts.append(datetime.now(UTC).date().isoformat())
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def names_files(line: str) -> bool:
    """Whether a line of a requirements file may name files of the script's code."""
    words = line.partition(" #")[0].strip()
    if not words or words.startswith("#"):
        return False
    if _FROM_NETWORK.match(words) is not None:
        return False
    return _FROM_INDEX.fullmatch(words) is None or _ARCHIVE.search(words) is not None


def _is_of_one_job(requirements: Sequence[str], code_digest: str | None) -> bool:
    """Whether no other job could use the environment: its code may change or go."""
    if code_digest is None:
        return any(map(names_files, requirements))
    return any(map(_is_editable, requirements))  # points at the code, which goes with this job


def _is_editable(line: str) -> bool:
    return names_files(line) and line.lstrip().startswith(("-e", "--editable"))


def _is_exact(line: str) -> bool:
    return names_files(line) or _EXACT.fullmatch(line) is not None


def _make(
    folder: Path,
    requirements: Sequence[str],
    pins: Sequence[str],
    places: Places,
    confine: Confine,
    heartbeat: Heartbeat,
) -> None:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    below = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (site / "_worker.pth").write_text("".join(f"{path}\n" for path in below))
    with (
        tempfile.TemporaryDirectory(dir=places.home_dir) as scratch,
        # Files that a line names (`-r base.txt`) are looked for beside the file of that line.
        tempfile.NamedTemporaryFile("w", dir=places.code_dir, prefix=".requirements-") as wanted,
    ):
        wanted.writelines(f"{line}\n" for line in requirements)
        wanted.flush()
        kept = Path(scratch, "constraints.txt")
        kept.write_text("".join(f"{line}\n" for line in pins))
        _install(folder, Path(wanted.name), kept, places, confine, heartbeat)


def _install(
    folder: Path,
    wanted: Path,
    kept: Path,
    places: Places,
    confine: Confine,
    heartbeat: Heartbeat,
) -> None:
    command = [
        # -P: the script's own `types.py` is no part of the standard library.
        sys.executable, "-P", "-m", "pip", "--python", str(folder / "bin" / "python"), "install",
        "--disable-pip-version-check", "--no-input", "--no-warn-script-location",
        "--progress-bar", "off",
        "--constraint", str(kept), "--requirement", str(wanted),
    ]  # fmt: skip
    # The installer runs code of the packages that it brings.
    environ = {
        **{name: value for name, value in os.environ.items() if is_passed_on(name)},
        "HOME": str(places.home_dir),
        "TMPDIR": str(places.temporary_dir),
        "REDKILN_OUT": str(places.out_dir),
    }
    # It looks for packages wherever this leads, also where it may not read.
    environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryFile() as output:
        status = _run(confine(command, folder), places.code_dir, environ, output, heartbeat)
        output.seek(0)
        said = output.read().decode(errors="replace").strip()
    if status == 0:
        return
    shutil.rmtree(folder, ignore_errors=True)
    if status is None:
        message = f"installing the requirements took more than {INSTALL_SECONDS:.0f} s"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, installer=said[-MAX_TAIL:])
    raise TrainingFailed(FailureCode.BAD_INPUT, explain(said), installer=said[-MAX_TAIL:])


def _run(
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    output: IO[bytes],
    heartbeat: Heartbeat,
) -> int | None:
    """The installer's exit status; None where it took too long."""
    deadline = time.monotonic() + INSTALL_SECONDS
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    ) as installer:
        try:
            while time.monotonic() < deadline:
                with suppress(subprocess.TimeoutExpired):
                    return installer.wait(timeout=POLL_SECONDS)
                heartbeat.beat()
            return None
        finally:
            installer.kill()  # where it is not over: too late, or we are asked to stop


def _find_causes(said: str) -> list[str]:
    """Who asks for what, where that cannot be had together."""
    _, found, after = said.partition(CONFLICT)
    causes = after.partition("\n\n")[0].splitlines() if found else []
    return [cause.strip() for cause in causes if cause.strip()]


def explain(said: str) -> str:
    """A failed installation in the installer's own words, and what follows."""
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line.strip() for line in lines if line.strip().startswith("ERROR:")]
    words = " ".join([*(errors or lines[-3:]), *_find_causes(said)])[:1500]
    hint = ""
    if any(f"{name}==" in said and "conflict" in said.lower() for name in KEPT):
        hint = (
            " The worker's own torch is never replaced, as another build would not run on its "
            "hardware: leave its version out of the requirements."
        )
    return f"the requirements cannot be installed: {words}{hint}"
