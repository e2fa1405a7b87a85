"""What has cured this machine before, so that the next diagnosis names it first."""

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from redkiln.views.doctor import DoctorReport
from redkiln.views.hardware import DoctorCheck

NAME = "cures.json"
MOST = 50


class Tried(BaseModel):
    """A cure that was carried out.

    Attributes:
        row: Row of the table that it is for; 0 for none.
        command: The same as a command.
        has_cured: Whether a later diagnosis found the row in order.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: datetime
    row: int
    cure: str
    command: str
    has_cured: bool = False


class _Book(RootModel[list[Tried]]):
    pass


class CureBook:
    """A file with the last cures of one worker."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def load(self) -> list[Tried]:
        """Return all entries, the oldest first; nothing if the file is absent or damaged."""
        try:
            return _Book.model_validate_json(self._path.read_bytes()).root
        except (OSError, ValidationError):
            return []

    def add(self, tried: Tried) -> None:
        """Record a cure.

        Raises:
            OSError: The file cannot be written.
        """
        self._save([*self.load(), tried])

    def confirm(self, report: DoctorReport) -> list[Tried]:
        """Mark the cures whose rows are in order now, and return those that were not marked before.

        Raises:
            OSError: The file cannot be written.
        """
        fine = {check.row for check in report.checks if check.verdict == "ok" and check.row}
        entries = self.load()
        cured = [entry for entry in entries if entry.row in fine and not entry.has_cured]
        if cured:
            marked = [
                entry.model_copy(update={"has_cured": True}) if entry in cured else entry
                for entry in entries
            ]
            self._save(marked)
        return cured

    def _save(self, entries: list[Tried]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(_Book(entries[-MOST:]).model_dump_json(indent=1) + "\n")
        part.replace(self._path)


def remember(first: DoctorCheck | None, entries: list[Tried]) -> str:
    """Return the command that has cured the same row before; empty if none has."""
    if first is None or not first.row:
        return ""
    cured = [entry for entry in entries if entry.row == first.row and entry.has_cured]
    return cured[-1].command if cured else ""
