"""What a script needs beyond the worker's own packages: an environment layered on the worker's.

The environment is a virtual environment whose packages come before the worker's, which stay
visible through a `.pth` file. pip sees them as installed, so it brings only what is missing or too
old; torch and what was built with it are pinned to what is there, as another build would not run
on this hardware. An environment is kept by the digest of what was asked for and of what it lies
on, so that the next job with the same requirements starts at once.
"""

import fcntl
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from redkiln.failure import FailureCode
from worker.script.places import Places
from worker.trainer.failed import TrainingFailed

KEPT = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton-rocm")
"""Never replaced: built together, against one ROCm."""
INSTALL_SECONDS = 3600.0
MAX_TAIL = 4000
MARK = "complete"

Confine = Callable[[Sequence[str], Mapping[str, str], Path], list[str]]
"""Command line, environment and the folder that it may write -> the command line to be run."""


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
    confine: Confine = lambda command, _environ, _writable: list(command),
) -> Environment:
    """The environment that a script's requirements ask for, made now or kept from before.

    Args:
        requirements: lines of a requirements file.
        cache_dir: of the worker's jobs.
        places: of the script, whose code a line may name (`./package`).
        say: told what is done, as it may take minutes.
        confine: puts what confines the installer in front of it, as packages run code of theirs.

    Raises:
        TrainingFailed: they cannot be installed; in the installer's own words.
    """
    if not requirements:
        return Environment()
    pins = list(find_pins())
    key = digest(requirements, pins, places)
    folder = cache_dir / "environments" / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if (folder / MARK).exists():
            say(f"the environment of these {len(requirements)} requirements is there already")
            return Environment(folder)
        shutil.rmtree(folder, ignore_errors=True)
        say(f"installing {', '.join(requirements[:5])}{' ...' if len(requirements) > 5 else ''}")
        _make(folder, requirements, pins, places, confine)
        (folder / MARK).touch()
    return Environment(folder)


def find_pins() -> Iterator[str]:
    """Torch and its family, as they are."""
    for name in KEPT:
        try:
            yield f"{name}=={importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue  # the family is not complete everywhere


def digest(requirements: Sequence[str], pins: Sequence[str], places: Places) -> str:
    """What an environment is kept by: what was asked for, and what it lies on."""
    names_code = any(line.startswith((".", "-e", "-r", "file:")) for line in requirements)
    facts = [sys.version, sys.prefix, list(requirements), list(pins)]
    if names_code:
        facts.append(str(places.root))  # its content is this job's own
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def _make(
    folder: Path,
    requirements: Sequence[str],
    pins: Sequence[str],
    places: Places,
    confine: Confine,
) -> None:
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    site = folder / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    below = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    (site / "_worker.pth").write_text("".join(f"{path}\n" for path in below))
    with tempfile.TemporaryDirectory(dir=places.home_dir) as scratch:
        wanted, kept = Path(scratch, "requirements.txt"), Path(scratch, "constraints.txt")
        wanted.write_text("".join(f"{line}\n" for line in requirements))
        kept.write_text("".join(f"{line}\n" for line in pins))
        _install(folder, wanted, kept, places, confine)


def _install(folder: Path, wanted: Path, kept: Path, places: Places, confine: Confine) -> None:
    command = [
        sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install",
        "--disable-pip-version-check", "--no-input", "--quiet", "--no-warn-script-location",
        "--constraint", str(kept), "--requirement", str(wanted),
    ]  # fmt: skip
    # The installer runs code of the packages that it brings.
    own = {name: value for name, value in os.environ.items() if name != "HF_TOKEN"}
    environ = {**own, "HOME": str(places.home_dir), "TMPDIR": str(places.temporary_dir)}
    try:
        done = subprocess.run(
            confine(command, environ, folder),
            cwd=places.code_dir,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        message = f"installing the requirements took more than {INSTALL_SECONDS:.0f} s"
        raise TrainingFailed(FailureCode.BAD_INPUT, message) from error
    said = done.stdout.decode(errors="replace").strip()
    if done.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise TrainingFailed(FailureCode.BAD_INPUT, explain(said), installer=said[-MAX_TAIL:])


def explain(said: str) -> str:
    """A failed installation in the installer's own words, and what follows."""
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line.strip() for line in lines if line.strip().startswith("ERROR:")]
    words = " ".join(errors or lines[-3:])[:1500]
    hint = ""
    if any(f"{name}==" in said and "conflict" in said.lower() for name in KEPT):
        hint = (
            " The worker's own torch is never replaced, as another build would not run on its "
            "hardware: leave its version out of the requirements."
        )
    return f"the requirements cannot be installed: {words}{hint}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two jobs with the same requirements make their environment once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
