"""The folders of a script, below the job directory.

script/code          the unpacked bundle; the program starts here
script/out           REDKILN_OUT: what lies here becomes artifacts
script/checkpoints   REDKILN_CHECKPOINTS: kept for the next attempt
script/home          HOME, TMPDIR (in it) and caches; nothing of it is kept
script/lib           on PYTHONPATH: `redkiln` alone
script-environment   packages that no other job could use
script-tools         the same with `worker`, for what is checked within the script's bounds
script/events.jsonl  REDKILN_EVENTS: what `redkiln.log` writes

All of it goes with the job directory.
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
"""Of a folder that is used under its own name."""


@dataclass(frozen=True)
class Places:
    """Paths of one script's folders.

    Attributes:
        own_out: where results go instead.
        own_code: where the program starts instead.
    """

    root: Path
    own_out: Path | None = None
    own_code: Path | None = None

    @property
    def code_dir(self) -> Path:
        """Where the program starts."""
        return self.own_code or self.root / "code"

    @property
    def out_dir(self) -> Path:
        """What it leaves."""
        return self.own_out or self.root / "out"

    @property
    def checkpoints_dir(self) -> Path:
        """What it goes on from."""
        return self.root / "checkpoints"

    @property
    def home_dir(self) -> Path:
        """Its home."""
        return self.root / "home"

    @property
    def temporary_dir(self) -> Path:
        """Its temporary files."""
        return self.home_dir / "tmp"

    @property
    def lib_dir(self) -> Path:
        """Holds the package that it tells its metrics with."""
        return self.root / "lib"

    @property
    def environment_dir(self) -> Path:
        """Its packages, where they are kept for no other job; not the script's to write."""
        return self.root.with_name(f"{self.root.name}-environment")

    @property
    def own_lib_dir(self) -> Path:
        """Holds what the worker runs within the script's bounds; not the script's to write."""
        return self.root.with_name("script-tools")

    @property
    def events_path(self) -> Path:
        """What it says."""
        return self.root / "events.jsonl"

    def prepare(self) -> None:
        """Make the folders; those that there are stay as they are."""
        for folder in (self.code_dir, self.out_dir, self.checkpoints_dir, self.temporary_dir):
            folder.mkdir(parents=True, exist_ok=True)
        _link(self.lib_dir, "redkiln")

    def prepare_tools(self) -> None:
        """Make what the worker runs within the script's bounds."""
        _link(self.own_lib_dir, "redkiln", "worker")


def shorten(folder: Path) -> Path:
    """A short name for a folder of temporary files, in which programs make sockets.

    A socket's path has at most 107 bytes, of which `multiprocessing` takes 32 below its folder.
    The short name is a link, which is removed by a later script once its folder is gone.

    Source: unix(7).
    """
    links_dir = Path(tempfile.gettempdir())
    for old in links_dir.glob(f"{LINK_PREFIX}*"):
        with suppress(OSError):  # another user's, or removed meanwhile
            if old.is_symlink() and not old.exists():
                old.unlink()
    link = links_dir / f"{LINK_PREFIX}{secrets.token_hex(4)}"
    if len(os.fsencode(folder)) <= MAX_PATH_BYTES or len(str(link)) >= len(str(folder)):
        return folder
    try:
        link.symlink_to(folder.absolute())
    except OSError:
        return folder  # nothing can be written there
    return link


def _link(folder: Path, *packages: str) -> None:
    folder.mkdir(exist_ok=True)
    for package in packages:
        link = folder / package
        if not link.is_symlink():
            link.symlink_to(Path(redkiln.__file__).parents[1] / package)
