"""Faults of the worker's own parts: recorded by the agent, read by the doctor.

A part is the worker itself or one of its observers (TensorBoard, MLflow, sample predictions). Its
entry disappears when the part works again.
"""

import threading
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

NAME = "faults.json"
WORKER = "the worker"

_one_at_a_time = threading.Lock()
"""Slots end at any time, and each change rewrites the file."""


class SeenFault(BaseModel):
    """The newest fault of a part.

    Attributes:
        text: Readable text of the exception, in one line.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: datetime
    attempt_id: str
    text: str


class _Faults(RootModel[dict[str, SeenFault]]):
    pass


class FaultBook:
    """A file with the newest fault of each broken part."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def add(self, part: str, fault: SeenFault) -> None:
        """Record the fault of a part.

        Raises:
            OSError: The file cannot be written.
        """
        with _one_at_a_time:
            self._save({**self.load(), part: fault})

    def clear(self, parts: Iterable[str]) -> None:
        """Forget the faults of parts that work again.

        Raises:
            OSError: The file cannot be written.
        """
        with _one_at_a_time:
            known = self.load()
            kept = {part: fault for part, fault in known.items() if part not in set(parts)}
            if kept != known:
                self._save(kept)

    def load(self) -> dict[str, SeenFault]:
        """Load the faults by part; empty without a readable file."""
        try:
            return _Faults.model_validate_json(self._path.read_bytes()).root
        except (OSError, ValidationError):
            return {}

    def _save(self, faults: dict[str, SeenFault]) -> None:
        partial = self._path.with_suffix(".partial")
        partial.write_text(_Faults(faults).model_dump_json(indent=1))
        partial.replace(self._path)
