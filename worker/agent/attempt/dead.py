"""Records how the agent's children died, for the doctor to read."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import structlog

from redkiln.failure import JobFailure
from worker.agent.attempt.classify import Death
from worker.hardware.health.death_book import DeathBook, SeenDeath

log = structlog.get_logger(__name__)

_one_at_a_time = threading.Lock()
"""Slots end at any time, and each record rewrites the file."""


def record_death(
    death: Death, failure: JobFailure | None, *, attempt_id: str, worker_dir: Path
) -> None:
    """Record an unexpected death; a child that finished or was stopped did not die.

    Args:
        death: How the child ended.
        failure: The verdict on its death; None if its work was done.
        attempt_id: Id of the attempt that it belonged to.
        worker_dir: Folder of the record.
    """
    has_crashed_after_work = failure is None and death.status != 0
    has_died = failure is not None and not death.stopped_for
    if not (has_died or has_crashed_after_work or (failure and "doctor_row" in failure.details)):
        return
    details = failure.details if failure else {}
    seen = SeenDeath(
        at=datetime.now(UTC),
        attempt_id=attempt_id,
        status=death.status,
        code=failure.code if failure else None,
        cause=details.get("cause"),
        row=details.get("doctor_row"),
        is_complete=failure is None,
        line=str(details.get("line") or details.get("error") or "")[:300],
        tail=death.tail,
    )
    try:
        with _one_at_a_time:
            DeathBook(worker_dir).add(seen)
    except OSError as error:
        log.warning("could not record a child's death", error=str(error))
