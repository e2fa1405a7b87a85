"""The deaths of trainers on this worker: written by the agent, read by the doctor."""

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

NAME = "deaths.jsonl"
MAX_DEATHS = 50
MAX_TAIL = 2000


class SeenDeath(BaseModel):
    """A child of the agent's that did not end well.

    Attributes:
        status: exit status; minus the number of the signal that ended it.
        cause: name in `worker.hardware.health.deaths`; None when it was not known.
        row: number in docs/doctor.md.
        is_complete: its work was done; it crashed on its way out.
        line: the line of its last words, or of the kernel's, that told.
        tail: its last words.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: datetime
    attempt_id: str
    status: int
    code: str | None = None
    cause: str | None = None
    row: int | None = None
    is_complete: bool = False
    line: str = ""
    tail: str = ""


class DeathBook:
    """A file that keeps the newest deaths; a damaged line is passed over."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def add(self, death: SeenDeath) -> None:
        """Write a death down; older ones make room.

        Raises:
            OSError: the file cannot be written.
        """
        kept = [*self.load(), death.model_copy(update={"tail": death.tail[-MAX_TAIL:]})]
        partial = self._path.with_suffix(".partial")
        partial.write_text("".join(f"{d.model_dump_json()}\n" for d in kept[-MAX_DEATHS:]))
        partial.replace(self._path)

    def load(self) -> list[SeenDeath]:
        """The deaths, the oldest first; none where there is no such file."""
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except OSError:
            return []
        return [death for line in lines if (death := _parse(line)) is not None]


def _parse(line: str) -> SeenDeath | None:
    try:
        return SeenDeath.model_validate_json(line)
    except ValidationError:
        return None
