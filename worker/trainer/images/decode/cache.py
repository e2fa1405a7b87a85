"""The folder of all decoded sets: how sets are added, and which are removed to make room."""

import os
import shutil
from pathlib import Path

from worker.trainer.images.decode.holding import unheld
from worker.trainer.images.decode.room import DISK_RESERVE_BYTES


def publish(staging: Path, folder: Path) -> None:
    """Move a set into place by one rename, without temporary files; an existing set stays."""
    for path in staging.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in ("images.npy", "facts.json"):
            path.unlink()
    try:
        os.rename(staging, folder)  # noqa: PTH104 - unlike replace, never onto a full folder
    except OSError:
        if not (folder / "facts.json").exists():
            raise


def prune(
    parent: Path,
    *,
    keep: Path,
    budget_bytes: float = float("inf"),
    free_bytes: float = float("inf"),
    wanted_bytes: int = 0,
) -> None:
    """Remove the least recently used sets to meet the budget and to make room.

    Sets that are being read stay, even if they exceed the budget.

    Args:
        parent: Folder of all decoded sets.
        keep: A set that must stay.
        budget_bytes: Space for all sets together.
        free_bytes: Free disk space.
        wanted_bytes: Space that the next set needs.
    """
    folders = _list_sets(parent)
    sizes = {path: _size_bytes(path) for path in folders}
    excess = max(sum(sizes.values()) - budget_bytes, wanted_bytes + DISK_RESERVE_BYTES - free_bytes)
    for path in sorted(folders, key=lambda folder: folder.stat().st_mtime):
        if excess <= 0:
            return
        if path == keep:
            continue
        with unheld(path) as is_unheld:
            if is_unheld:
                shutil.rmtree(path, ignore_errors=True)
                excess -= sizes[path]


def removable_bytes(parent: Path) -> int:
    """Return the size of all sets that no job reads."""
    total = 0
    for path in _list_sets(parent):
        with unheld(path) as is_unheld:
            total += _size_bytes(path) if is_unheld else 0
    return total


def _list_sets(parent: Path) -> list[Path]:
    return [path for path in parent.iterdir() if not path.name.startswith(".")]


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
