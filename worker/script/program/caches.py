"""A script's own caches, so that nothing it writes becomes code or a model of another job.

A trainer is not confined and loads compiled kernels and models from the worker's caches. A script
may read these models, but its kernels are compiled into a folder that only scripts use.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worker.script.program.paths import ScriptPaths

KERNEL_FOLDERS = (
    "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR", "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH",
)  # fmt: skip
TUNINGS = "PYTORCH_TUNABLEOP_FILENAME"
"""Names a file: a table of choices, which contains no code."""
HUB = "hub"
"""The folder of models in Hugging Face's and torch's homes; the former also contains a token."""
MAX_REFERENCE_BYTES = 1024


@dataclass(frozen=True)
class Caches:
    """Replacements for the worker's own caches.

    Attributes:
        environ: Variables that name the folders.
        readable: Folders of the worker's models.
        writable: Folders of the scripts' kernels.
    """

    environ: dict[str, str] = field(default_factory=dict)
    readable: list[Path] = field(default_factory=list)
    writable: list[Path] = field(default_factory=list)


def build_caches(environ: Mapping[str, str], *, paths: ScriptPaths, cache_dir: Path) -> Caches:
    """Create a script's caches.

    Args:
        environ: The worker's environment with the hardware's patches, without the spec's variables.
        paths: The script's folders.
        cache_dir: Cache folder of the worker's jobs.
    """
    kernels_dir = cache_dir / "script-kernels"
    own = Caches()
    for name in (*KERNEL_FOLDERS, TUNINGS):
        if not environ.get(name):
            continue
        theirs = Path(environ[name])
        # Separate by hardware, releases and slot, like the worker's own. Scripts may write in each
        # folder but not next to it, so they cannot replace it with a link.
        parent = kernels_dir / hashlib.sha256(str(theirs.parent).encode()).hexdigest()[:16]
        folder = parent / ("tunings" if name == TUNINGS else theirs.name)
        folder.mkdir(parents=True, exist_ok=True)
        own.writable.append(folder)
        if name == TUNINGS:
            _copy_tunings(theirs, folder)
            own.environ[name] = str(folder / theirs.name)
        else:
            own.environ[name] = str(folder)
    _show_models(environ, own, paths)
    return own


def _copy_tunings(theirs: Path, folder: Path) -> None:
    # torch replaces %d by the number of the device.
    for path in theirs.parent.glob(theirs.name.replace("%d", "*")):
        # Another script may have left a link with this name.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy:
            copy.write(path.read_bytes())
        Path(copy.name).replace(folder / path.name)


def _show_models(environ: Mapping[str, str], own: Caches, paths: ScriptPaths) -> None:
    """Give the script its own model folders, with links to the models that exist already."""
    for name, folder in (("HF_HOME", "huggingface"), ("TORCH_HOME", "torch")):
        if not environ.get(name):
            continue
        home = paths.home_dir / folder
        shared = Path(environ[name], HUB)
        if name == "HF_HOME" and environ.get("HF_HUB_CACHE"):
            shared = Path(environ["HF_HUB_CACHE"])
            own.environ["HF_HUB_CACHE"] = str(home / HUB)
        own.environ[name] = str(home)
        if shared.is_dir():
            own.readable.append(shared)
            _mirror(shared.resolve(), home / HUB)


def _mirror(source: Path, target: Path) -> None:
    """Copy folders, so that new files can be added, but link files to the existing ones."""
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if not name.startswith(".")]
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in (*files, *(name for name in names if Path(folder, name).is_symlink())):
            path, link = Path(folder, name), place / name
            if link.is_symlink() or link.exists():
                continue
            if path.is_symlink():
                link.symlink_to(path.readlink())
            elif "refs" in path.relative_to(source).parts:
                # The hub's client rewrites these files in place.
                link.write_bytes(path.read_bytes()[:MAX_REFERENCE_BYTES])
            else:
                link.symlink_to(path)
