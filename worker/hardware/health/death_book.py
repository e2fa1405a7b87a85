"""The deaths of this worker's trainers: recorded by the agent, read by the doctor."""

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

NAME = "deaths.jsonl"
MAX_DEATHS = 50
MAX_TAIL = 2000


class SeenDeath(BaseModel):
    """A child of the agent that crashed or failed.

    Attributes:
        status: Exit status; negative: the signal that ended it.
        cause: Name of the cause in `worker.hardware.health.deaths`; None if unknown.
        row: Number in docs/doctor.md.
        is_complete: Whether its work was done and it crashed at exit.
        line: The line of its output, or of the kernel's log, that shows the cause.
        tail: The end of its output.
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
    """A file with the latest deaths; damaged lines are skipped."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def add(self, death: SeenDeath) -> None:
        """Record a death and drop the oldest ones beyond the limit.

        Raises:
            OSError: The file cannot be written.
        """
        kept = [*self.load(), death.model_copy(update={"tail": death.tail[-MAX_TAIL:]})]
        partial = self._path.with_suffix(".partial")
        partial.write_text("".join(f"{d.model_dump_json()}\n" for d in kept[-MAX_DEATHS:]))
        partial.replace(self._path)

    def load(self) -> list[SeenDeath]:
        """Load the deaths, the oldest first; empty without a file."""
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
