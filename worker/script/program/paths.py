"""The folders of a script, below the job directory.

script/code          the unpacked bundle, in which the program starts
script/out           REDKILN_OUT: files here become artifacts
script/checkpoints   REDKILN_CHECKPOINTS: kept for the next attempt
script/home          HOME, with TMPDIR and caches in it; not kept
script/lib           on PYTHONPATH: only `redkiln`
script-environment   packages that no other job could use
script-tools         `redkiln` and `worker`, for checks that run within the script's limits
script/events.jsonl  REDKILN_EVENTS: what `redkiln.log` writes

All of it is removed with the job directory.
"""

import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import redkiln

LINK_PREFIX = "redkiln-tmp-"
MAX_PATH_BYTES = 60
"""Longest path of a folder that is used without a short link."""


@dataclass(frozen=True)
class ScriptPaths:
    """Paths of one script's folders.

    Attributes:
        own_out: Folder for results, if not the default one.
        own_code: Folder in which the program starts, if not the default one.
    """

    root: Path
    own_out: Path | None = None
    own_code: Path | None = None

    @property
    def code_dir(self) -> Path:
        """Folder in which the program starts."""
        return self.own_code or self.root / "code"

    @property
    def out_dir(self) -> Path:
        """Folder of the script's results."""
        return self.own_out or self.root / "out"

    @property
    def checkpoints_dir(self) -> Path:
        """Folder of the script's checkpoints."""
        return self.root / "checkpoints"

    @property
    def home_dir(self) -> Path:
        """The script's home folder."""
        return self.root / "home"

    @property
    def temporary_dir(self) -> Path:
        """Folder for temporary files."""
        return self.home_dir / "tmp"

    @property
    def lib_dir(self) -> Path:
        """Folder of the package with which the script logs metrics."""
        return self.root / "lib"

    @property
    def environment_dir(self) -> Path:
        """Folder of packages that only this job uses; the script cannot write it."""
        return self.root.with_name(f"{self.root.name}-environment")

    @property
    def own_lib_dir(self) -> Path:
        """Folder of code that runs within the script's limits; the script cannot write it."""
        return self.root.with_name("script-tools")

    @property
    def events_path(self) -> Path:
        """File of the script's metrics and events."""
        return self.root / "events.jsonl"

    def prepare(self) -> None:
        """Create the folders; existing ones are kept."""
        for folder in (self.code_dir, self.out_dir, self.checkpoints_dir, self.temporary_dir):
            folder.mkdir(parents=True, exist_ok=True)
        _link(self.lib_dir, "redkiln")

    def prepare_tools(self) -> None:
        """Create the folder of code that the worker runs within the script's limits."""
        _link(self.own_lib_dir, "redkiln", "worker")


def shorten(folder: Path) -> Path:
    """Return a short path for a folder of temporary files, in which programs create sockets.

    A socket's path has at most 107 bytes, of which `multiprocessing` uses 32 below its folder. The
    short path is a link; a later script removes it once its folder is gone.

    Source: unix(7).
    """
    links_dir = Path(tempfile.gettempdir())
    for old in links_dir.glob(f"{LINK_PREFIX}*"):
        with suppress(OSError):  # another user's link, or removed meanwhile
            if old.is_symlink() and not old.exists():
                old.unlink()
    link = links_dir / f"{LINK_PREFIX}{secrets.token_hex(4)}"
    if len(os.fsencode(folder)) <= MAX_PATH_BYTES or len(str(link)) >= len(str(folder)):
        return folder
    try:
        link.symlink_to(folder.absolute())
    except OSError:
        return folder  # the folder for links is not writable
    return link


def _link(folder: Path, *packages: str) -> None:
    folder.mkdir(exist_ok=True)
    for package in packages:
        link = folder / package
        if not link.is_symlink():
            link.symlink_to(Path(redkiln.__file__).parents[1] / package)
