"""The Python environment of a script: its requirements, layered on the worker's packages.

The environment is a virtual environment whose packages come before the worker's, which stay
visible through a `.pth` file. pip sees the worker's packages as installed, so it installs only what
is missing or too old. torch and the packages built with it are pinned to the installed versions,
because another build would not run on this hardware. An environment is stored under a digest of the
requirements and of the worker's packages, so the next job with the same requirements starts at
once: exactly pinned requirements until they are unused, others for a day, and requirements that
name the script's own files together with its code.
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
from worker.process.failed import TrainingFailed
from worker.script.heartbeat import Heartbeat
from worker.script.program.kept import drop_unused, hold_folder
from worker.script.program.paths import ScriptPaths
from worker.script.program.variables import is_passed_on

KEPT = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton-rocm")
"""Never replaced, because they are built together for one ROCm version."""
INSTALL_SECONDS = 3600.0
MAX_TAIL = 4000
MARK = "complete"

NUM_KEPT = 20
"""Environments to keep on a worker; environments in use are always kept."""
POLL_SECONDS = 1.0
CONFLICT = "The conflict is caused by:"
"""The line before pip's list of conflicting requirements."""

_FROM_INDEX = re.compile(r"[A-Za-z0-9][\w.-]*\s*(\[[^\]/]*\])?\s*([<>=!~(][^@/]*)?(;.*)?")
"""`name[extra] >= 1, < 2 ; marker`."""
_FROM_NETWORK = re.compile(r"(?![./])[^;]*(?:https?|ssh|git)://")
_ARCHIVE = re.compile(r"\.(?:whl|zip|tar|tgz|tbz|txz|tlz)\b")
_EXACT = re.compile(
    r"\s*[\w.-]+\s*(\[[^\]]*\])?\s*={2,3}\s*[\w.+!-]+\s*(;.*)?(\s--hash=\S+)*\s*(#.*)?"
)

Confine = Callable[[Sequence[str], Path], list[str]]
"""Takes a command line and a folder that it may write; returns the command line to run."""


@dataclass(frozen=True)
class Environment:
    """Where a program finds Python and its packages.

    Attributes:
        folder: Folder of the virtual environment; None: the worker's own environment.
    """

    folder: Path | None = None

    @property
    def bin_dir(self) -> Path:
        """Folder to put first on PATH."""
        return Path(sys.executable).parent if self.folder is None else self.folder / "bin"


def build_environment(
    requirements: Sequence[str],
    *,
    cache_dir: Path,
    paths: ScriptPaths,
    say: Callable[[str], None],
    max_bytes: int = SCRIPT_CACHE_BYTES,
    code_digest: str | None = None,
    confine: Confine = lambda command, _writable: list(command),
) -> Environment:
    """Build the environment for a script's requirements, or reuse a stored one.

    It is kept for as long as this process lives; environments that are unused for long are
    removed.

    Args:
        requirements: Lines of a requirements file.
        cache_dir: Cache folder of the worker's jobs.
        paths: The script's folders; a line may name the script's code (`./package`).
        say: Receives progress messages, repeatedly, because installing may take minutes.
        max_bytes: Largest size of all environments that no job uses.
        code_digest: Digest of the script's code; None if the code may change at any time.
        confine: Confines the installer, because packages run their own code during installation.

    Raises:
        TrainingFailed: The requirements cannot be installed; quotes the installer.
    """
    if not requirements:
        return Environment()
    pins = list(find_pins())
    names = f"{', '.join(requirements[:5])}{' ...' if len(requirements) > 5 else ''}"

    def make(folder: Path) -> None:
        say(f"installing {names}")
        _make(folder, requirements, pins, paths, confine, Heartbeat(say, "installing"))
        # Packages ran their own code in this folder and may have left a link with this name.
        (folder / MARK).unlink(missing_ok=True)
        (folder / MARK).touch(exist_ok=False)

    if _is_of_one_job(requirements, code_digest):
        shutil.rmtree(paths.environment_dir, ignore_errors=True)
        make(paths.environment_dir)
        return Environment(paths.environment_dir)
    key = digest(requirements, pins, code_digest=code_digest or "")
    folder = cache_dir / "environments" / key

    def is_whole(folder: Path) -> bool:
        return (folder / MARK).exists()

    waiting = Heartbeat(say, "waiting for another job that installs the same")
    if not hold_folder(folder, make=make, is_whole=is_whole, beat=waiting.beat):
        say(f"reusing the environment of these {len(requirements)} requirements")
    drop_unused(folder.parent, num_kept=NUM_KEPT, max_bytes=max_bytes)
    return Environment(folder)


def find_pins() -> Iterator[str]:
    """Yield the installed versions of torch and its family."""
    for name in KEPT:
        try:
            yield f"{name}=={importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue  # not every worker has the whole family


def digest(requirements: Sequence[str], pins: Sequence[str], *, code_digest: str) -> str:
    """Return an environment's key: a digest of the requirements and the worker's packages.

    Args:
        requirements: Lines of a requirements file.
        pins: See `find_pins`.
        code_digest: Digest of the files that a line may name.
    """
    worker = sorted(f"{item.name}=={item.version}" for item in importlib.metadata.distributions())
    facts = [sys.version, sys.prefix, list(requirements), list(pins), worker]
    if any(map(names_files, requirements)):
        facts.append(code_digest)
    if not all(map(_is_exact, requirements)):
        # An index or a branch may offer other versions tomorrow.
        facts.append(datetime.now(UTC).date().isoformat())
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def names_files(line: str) -> bool:
    """Return whether a line of a requirements file may name files of the script's code."""
    words = line.partition(" #")[0].strip()
    if not words or words.startswith("#"):
        return False
    if _FROM_NETWORK.match(words) is not None:
        return False
    return _FROM_INDEX.fullmatch(words) is None or _ARCHIVE.search(words) is not None


def _is_of_one_job(requirements: Sequence[str], code_digest: str | None) -> bool:
    """Return whether no other job can use the environment, because its code may change."""
    if code_digest is None:
        return any(map(names_files, requirements))
    return any(map(_is_editable, requirements))  # they point at code that is removed with the job


def _is_editable(line: str) -> bool:
    return names_files(line) and line.lstrip().startswith(("-e", "--editable"))


def _is_exact(line: str) -> bool:
    return names_files(line) or _EXACT.fullmatch(line) is not None


def _make(
    folder: Path,
    requirements: Sequence[str],
    pins: Sequence[str],
    paths: ScriptPaths,
    confine: Confine,
    heartbeat: Heartbeat,
) -> None:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    below = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (site / "_worker.pth").write_text("".join(f"{path}\n" for path in below))
    with (
        tempfile.TemporaryDirectory(dir=paths.home_dir) as scratch,
        # pip looks for files that a line names (`-r base.txt`) next to the file with that line.
        tempfile.NamedTemporaryFile("w", dir=paths.code_dir, prefix=".requirements-") as wanted,
    ):
        wanted.writelines(f"{line}\n" for line in requirements)
        wanted.flush()
        kept = Path(scratch, "constraints.txt")
        kept.write_text("".join(f"{line}\n" for line in pins))
        _install(folder, Path(wanted.name), kept, paths, confine, heartbeat)


def _install(
    folder: Path,
    wanted: Path,
    kept: Path,
    paths: ScriptPaths,
    confine: Confine,
    heartbeat: Heartbeat,
) -> None:
    command = [
        # -P: the script's own `types.py` must not shadow the standard library.
        sys.executable, "-P", "-m", "pip", "--python", str(folder / "bin" / "python"), "install",
        "--disable-pip-version-check", "--no-input", "--no-warn-script-location",
        "--progress-bar", "off",
        "--constraint", str(kept), "--requirement", str(wanted),
    ]  # fmt: skip
    # The installer runs code of the packages that it installs.
    environ = {
        **{name: value for name, value in os.environ.items() if is_passed_on(name)},
        "HOME": str(paths.home_dir),
        "TMPDIR": str(paths.temporary_dir),
        "REDKILN_OUT": str(paths.out_dir),
    }
    # pip would search these folders for packages, even those that it may not read.
    environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryFile() as output:
        status = _run(confine(command, folder), paths.code_dir, environ, output, heartbeat)
        output.seek(0)
        printed = output.read().decode(errors="replace").strip()
    if status == 0:
        return
    shutil.rmtree(folder, ignore_errors=True)
    if status is None:
        message = f"installing the requirements took more than {INSTALL_SECONDS:.0f} s"
        raise TrainingFailed(FailureCode.BAD_INPUT, message, installer=printed[-MAX_TAIL:])
    raise TrainingFailed(FailureCode.BAD_INPUT, explain(printed), installer=printed[-MAX_TAIL:])


def _run(
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    output: IO[bytes],
    heartbeat: Heartbeat,
) -> int | None:
    """Return the installer's exit status; None if it took too long."""
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
            installer.kill()  # if it still runs: the time is up, or the job was stopped


def _find_causes(printed: str) -> list[str]:
    """Return the conflicting requirements that pip lists."""
    _, found, after = printed.partition(CONFLICT)
    causes = after.partition("\n\n")[0].splitlines() if found else []
    return [cause.strip() for cause in causes if cause.strip()]


def explain(printed: str) -> str:
    """Describe a failed installation by quoting the installer, with a hint about torch."""
    lines = [line for line in printed.splitlines() if line.strip()]
    errors = [line.strip() for line in lines if line.strip().startswith("ERROR:")]
    words = " ".join([*(errors or lines[-3:]), *_find_causes(printed)])[:1500]
    hint = ""
    if any(f"{name}==" in printed and "conflict" in printed.lower() for name in KEPT):
        hint = (
            " The worker's own torch is never replaced, because another build would not run on "
            "its hardware. Remove the version of torch from the requirements."
        )
    return f"the requirements cannot be installed: {words}{hint}"
