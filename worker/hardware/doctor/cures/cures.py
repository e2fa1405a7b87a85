"""The cures: what each would do is decided first, and done only after a yes.

A cure is safe: it changes only files that Redkiln, `./up` or a compiler's cache wrote, keeps a copy
of settings that it edits, and never needs root.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import DoctorCheck
from worker.hardware.doctor.device_nodes import GROUP_SETTING
from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.overrides import OVERRIDE, find_overrides

SETTINGS = ".env"
VARIABLES = "worker.env"
OLD_LOCK_SECONDS = 3600.0
"""Builds that wait for a lock take minutes; an older one was left by a process that is gone."""

RESTART = "docker compose up --detach worker"
ROW_VARIABLES = (19, 21, 22, 27)
"""Rows whose command sets variables of the worker."""


@dataclass(frozen=True)
class Cure:
    """One thing that the doctor can do.

    Attributes:
        row: Row of the table that it is for; 0 for none.
        title: Action, as a question's subject.
        command: The same as a command, for the record.
        apply: Does it.
        afterwards: Command that makes it take effect; empty if it does at once.
    """

    row: int
    title: str
    command: str
    apply: Callable[[], None]
    afterwards: str = ""


def find_cures(
    evidence: Evidence,
    report: DoctorReport,
    *,
    source_dir: Path,
    cache_dirs: Iterable[Path],
    now: float | None = None,
) -> list[Cure]:
    """Find what can be done about a report.

    Args:
        evidence: Evidence behind the report.
        report: The report.
        source_dir: Folder of compose.yaml, whose settings may be edited.
        cache_dirs: Folders of compiled kernels.
        now: Time in seconds; the present by default.
    """
    wrong = {check.row: check for check in report.checks if check.verdict == "bad"}
    cures = [*_cure_databases(wrong.get(14)), *_remove_locks(cache_dirs, now or time.time())]
    if not (source_dir / "compose.yaml").is_file() or evidence.is_container:
        return cures
    return [
        *_add_group(wrong.get(4), source_dir),
        *_remove_overrides(wrong.get(6), evidence, source_dir),
        *_set_variables(wrong, source_dir),
        *cures,
    ]


def find_stale_locks(folders: Iterable[Path], *, now: float) -> list[Path]:
    """Find lock files that no process holds and that are older than any build.

    torch's extensions wait for such a file to disappear, for ever if its process was killed.

    Source: torch/utils/file_baton.py.
    """
    files = (
        path for folder in folders for path in (*folder.rglob("lock"), *folder.rglob("*.lock"))
    )
    return sorted({path for path in files if _is_stale(path, now)})


def _cure_databases(check: DoctorCheck | None) -> list[Cure]:
    paths = [Path(path) for path in check.details.get("paths", ())] if check else []
    if not paths:
        return []
    names = " ".join(map(str, paths))
    return [Cure(14, f"delete damaged databases of kernels: {names}", f"rm {names}",
                 lambda: _delete(paths))]  # fmt: skip


def _remove_locks(folders: Iterable[Path], now: float) -> list[Cure]:
    paths = find_stale_locks(folders, now=now)
    if not paths:
        return []
    names = " ".join(map(str, paths))
    return [Cure(0, f"delete locks that no process holds: {names}", f"rm {names}",
                 lambda: _delete(paths))]  # fmt: skip


def _add_group(check: DoctorCheck | None, folder: Path) -> list[Cure]:
    gids = check.details.get("gids", []) if check else []
    if len(gids) != 1:
        return []
    line, path = f"{GROUP_SETTING}={gids[0]}", folder / SETTINGS
    return [Cure(4, f"give the worker the group of the GPU's nodes: {line} in {path}",
                 f"echo {line} >> {path}", lambda: set_lines(path, [line]), RESTART)]  # fmt: skip


def _remove_overrides(check: DoctorCheck | None, evidence: Evidence, folder: Path) -> list[Cure]:
    if check is None or not find_overrides(evidence.environment):
        return []
    paths = [path for name in (SETTINGS, VARIABLES) if _mentions(path := folder / name, OVERRIDE)]
    return [
        Cure(
            6,
            f"remove {OVERRIDE} from {path}",
            f"sed -i '/^{OVERRIDE}/d' {path}",
            lambda path=path: remove_lines(path, OVERRIDE),  # type: ignore[misc]
            RESTART,
        )
        for path in paths
    ]


def _set_variables(wrong: dict[int, DoctorCheck], folder: Path) -> list[Cure]:
    path = folder / VARIABLES
    found = []
    for row in wrong.keys() & ROW_VARIABLES:
        lines = [word for word in wrong[row].command.split() if "=" in word]
        if lines and wrong[row].command.startswith("export "):
            found.append(_set_lines(row, lines, path))
    return found


def _set_lines(row: int, lines: Sequence[str], path: Path) -> Cure:
    words = " ".join(lines)
    command = f"printf '%s\\n' {words} >> {path}"
    return Cure(row, f"set {words} for jobs, in {path}", command,
                lambda: set_lines(path, lines), RESTART)  # fmt: skip


def set_lines(path: Path, lines: Sequence[str]) -> None:
    """Set `NAME=value` lines of a file of settings; the old file is kept as `<name>.bak`.

    Raises:
        OSError: The file cannot be written.
    """
    names = tuple(f"{line.partition('=')[0]}=" for line in lines)
    kept = [line for line in _read_lines(path) if not line.startswith(names)]
    _write(path, [*kept, *lines])


def remove_lines(path: Path, prefix: str) -> None:
    """Remove the lines of a file of settings that begin with a prefix; the old file is kept.

    Raises:
        OSError: The file cannot be written.
    """
    _write(path, [line for line in _read_lines(path) if not line.startswith(prefix)])


def _write(path: Path, lines: Sequence[str]) -> None:
    if path.exists():
        path.with_name(f"{path.name}.bak").write_text(path.read_text())
    part = path.with_name(f"{path.name}.part")
    part.write_text("".join(f"{line}\n" for line in lines))
    part.replace(path)


def _read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _mentions(path: Path, prefix: str) -> bool:
    return any(line.startswith(prefix) for line in _read_lines(path))


def _delete(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _is_stale(path: Path, now: float) -> bool:
    try:
        if now - path.stat().st_mtime < OLD_LOCK_SECONDS:
            return False
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
