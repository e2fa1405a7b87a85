"""What a disk holds after a power failure: only what was synced.

The library of faults copied each file when it was synced, and the names in each folder when the
folder was synced. Folders themselves survive, because file systems write them within seconds.
"""

import shutil
from pathlib import Path


def cut_power(state, shadow):
    """Put a state folder back to what was durable; return the paths that lost something."""
    lost = []
    listings = _read_listings(shadow)
    for folder in [state, *(path for path in state.rglob("*") if path.is_dir())]:
        lost += _cut_folder(folder, listings.get(str(folder), {}), shadow)
    return lost


def _read_listings(shadow):
    found = {}
    for path in sorted((shadow / "folders").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        folder, *lines = path.read_text().splitlines()
        pairs = (line.split(" ", 1) for line in lines)
        found[folder] = {name: inode for inode, name in pairs}
    return found


def _cut_folder(folder, durable, shadow):
    lost = []
    for path in list(folder.iterdir()):
        if path.is_dir() or not path.is_file() or path.is_symlink():
            continue
        if path.name not in durable:
            path.unlink()
            lost.append(path)
    for name, inode in durable.items():
        copy, path = shadow / "files" / inode, folder / name
        before = path.read_bytes() if path.exists() else None
        if copy.exists():
            shutil.copyfile(copy, path)
        else:
            path.write_bytes(b"")  # its name was durable, its bytes were not
        if path.read_bytes() != before:
            lost.append(path)
    return lost


def make_shadow(folder: Path):
    for name in ("files", "folders"):
        (folder / name).mkdir(parents=True)
    return folder
