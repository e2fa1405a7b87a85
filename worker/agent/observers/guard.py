"""The one place that records what parts of the worker raise, and catches it for optional parts."""

import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import structlog

from redkiln.failure import FailureCode, JobFailure
from redkiln.views.job import Warned
from worker.hardware.health.fault_book import WORKER, FaultBook, SeenFault

log = structlog.get_logger(__name__)

MAX_TEXT = 300
Result = TypeVar("Result")


class Guard:
    """Keeps faults of the parts of one attempt away from its outcome.

    A part that has raised once is not used again in this attempt. Its trace is in the worker's log,
    the job gets one warning, and the doctor shows the fault until the part works again.

    Args:
        worker_dir: Folder of the worker, with the record that the doctor reads.
        attempt_id: Id of the attempt.
    """

    def __init__(self, worker_dir: Path, *, attempt_id: str) -> None:
        self._book = FaultBook(worker_dir)
        self._attempt_id = attempt_id
        self._faults: dict[str, str] = {}
        self._used: set[str] = set()

    def call(
        self, part: str, work: Callable[[], Result], *, is_last: bool = False
    ) -> Result | None:
        """Let a part work; None if it raises an exception now, or did so before.

        Args:
            part: Name of the part for people.
            work: The work.
            is_last: Whether to do the work even if the part is broken, such as closing its files.
        """
        if part in self._faults and not is_last:
            return None
        self._used.add(part)
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # an optional part must not cost a training run
            self.note(part, error)
            return None

    def note(self, part: str, error: Exception) -> str:
        """Record the fault of a part and log its trace; return it as a readable line."""
        text = describe(error)
        log.error("a part of the worker failed", part=part, exc_info=error)
        if part not in self._faults:
            self._faults[part] = text
            seen = SeenFault(at=datetime.now(UTC), attempt_id=self._attempt_id, text=text)
            try:
                self._book.add(part, seen)
            except OSError as failed:
                log.warning("could not record a fault", part=part, error=str(failed))
        return text

    def explain(self, error: Exception, *, log_path: Path) -> JobFailure:
        """Return the failure for a fault of the worker itself; its trace also goes to a log.

        Args:
            error: The exception.
            log_path: Log of the job.
        """
        text = self.note(WORKER, error)
        with suppress(OSError), log_path.open("a") as log_file:
            traceback.print_exception(error, file=log_file)
        message = (
            f"The worker failed while it ran this attempt; the job's log has the trace: {text}"
        )
        return JobFailure.of(FailureCode.WORKER_FAULT, message)

    def warnings(self) -> list[Warned]:
        """Return one warning for each optional part that failed."""
        return [
            Warned(
                code="observer_failed",
                message=f"{part} stopped with an error, which did not affect the job: {text}",
            )
            for part, text in self._faults.items()
            if part != WORKER
        ]

    def settle(self) -> None:
        """After an attempt that succeeded, forget earlier faults of the parts that worked."""
        try:
            self._book.clear({WORKER, *self._used} - self._faults.keys())
        except OSError as error:
            log.warning("could not clear the record of faults", error=str(error))


def describe(error: Exception) -> str:
    """Return an exception as one readable line: `ImportError: no module named x`."""
    words = " ".join(str(error).split())
    text = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."
