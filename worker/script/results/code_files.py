"""Files that a script writes next to its code, which are deleted with its folder."""

from pathlib import Path, PurePosixPath

from worker.process.event_log import EventLog
from worker.script.results.files import Folder, State

COMPILED = "__pycache__"
"""Folder of bytecode that Python writes by itself."""
MAX_NAMED = 3


class CodeFiles:
    """The folder of a script's code, as it was before the script started.

    Args:
        folder: Folder of the code.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = self._read()

    def list_written(self) -> list[str]:
        """Return the names of files that are new or have changed since then, sorted."""
        return sorted(
            name
            for name, state in self._read().items()
            if name not in self._before or self._before[name] != state
        )

    def warn_of_written(self, event_log: EventLog) -> None:
        """Write a warning that names the files, if there are any."""
        names = self.list_written()
        if not names:
            return
        more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
        what = "a file" if len(names) == 1 else f"{len(names)} files"
        event_log.warning(
            "files_next_to_code",
            f"the script wrote {what} next to its code, which Redkiln deletes: "
            f"{', '.join(names[:MAX_NAMED])}{more}. Write results to {{out}} (REDKILN_OUT), and "
            "what the next attempt needs to {checkpoints} (REDKILN_CHECKPOINTS)",
        )

    def _read(self) -> dict[str, State]:
        return {
            name: state
            for name, state in Folder(self._folder).scan()
            if COMPILED not in PurePosixPath(name).parts
        }
