"""Caches of a script's own: what it writes there must not become code or models of other jobs.

A trainer is not confined and loads compiled kernels and models from the worker's caches. A script
may read the models, and has its kernels compiled into a folder that scripts alone use.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from worker.script.places import Places

KERNEL_FOLDERS = (
    "MIOPEN_USER_DB_PATH", "MIOPEN_CUSTOM_CACHE_DIR", "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR", "PYTORCH_KERNEL_CACHE_PATH",
)  # fmt: skip
TUNINGS = "PYTORCH_TUNABLEOP_FILENAME"
"""Names a file; a table of choices, no code."""
HUB = "hub"
"""Where Hugging Face's and torch's homes keep models; the first keeps a token beside it."""
MAX_REFERENCE_BYTES = 1024


@dataclass(frozen=True)
class Caches:
    """What takes the place of the worker's own.

    Attributes:
        environ: names the folders.
        readable: models of the worker's.
        writable: the scripts' kernels.
    """

    environ: dict[str, str] = field(default_factory=dict)
    readable: list[Path] = field(default_factory=list)
    writable: list[Path] = field(default_factory=list)


def build_caches(environ: Mapping[str, str], *, places: Places, cache_dir: Path) -> Caches:
    """Make a script's caches.

    Args:
        environ: the worker's own, in which the hardware's patches are set; nothing of the spec's.
        places: of the script.
        cache_dir: of the worker's jobs.
    """
    kernels_dir = cache_dir / "script-kernels"
    own = Caches()
    for name in (*KERNEL_FOLDERS, TUNINGS):
        if not environ.get(name):
            continue
        theirs = Path(environ[name])
        # Apart as the worker's own are: by hardware, releases and slot. Scripts may write in each
        # folder, and not beside it: it cannot be made a link.
        parent = kernels_dir / hashlib.sha256(str(theirs.parent).encode()).hexdigest()[:16]
        folder = parent / ("tunings" if name == TUNINGS else theirs.name)
        folder.mkdir(parents=True, exist_ok=True)
        own.writable.append(folder)
        if name == TUNINGS:
            _copy_tunings(theirs, folder)
            own.environ[name] = str(folder / theirs.name)
        else:
            own.environ[name] = str(folder)
    _show_models(environ, own, places)
    return own


def _copy_tunings(theirs: Path, folder: Path) -> None:
    # torch replaces %d by the number of the device.
    for path in theirs.parent.glob(theirs.name.replace("%d", "*")):
        # Another script may have left a link of that name.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy:
            copy.write(path.read_bytes())
        Path(copy.name).replace(folder / path.name)


def _show_models(environ: Mapping[str, str], own: Caches, places: Places) -> None:
    """Homes of the script's own, in which the models that are there already are links."""
    for name, folder in (("HF_HOME", "huggingface"), ("TORCH_HOME", "torch")):
        if not environ.get(name):
            continue
        home = places.home_dir / folder
        shared = Path(environ[name], HUB)
        if name == "HF_HOME" and environ.get("HF_HUB_CACHE"):
            shared = Path(environ["HF_HUB_CACHE"])
            own.environ["HF_HUB_CACHE"] = str(home / HUB)
        own.environ[name] = str(home)
        if shared.is_dir():
            own.readable.append(shared)
            _mirror(shared.resolve(), home / HUB)


def _mirror(source: Path, target: Path) -> None:
    """Folders as folders, so that new files fit in; files as links to what is there."""
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
                # The hub's client writes these again in place.
                link.write_bytes(path.read_bytes()[:MAX_REFERENCE_BYTES])
            else:
                link.symlink_to(path)
