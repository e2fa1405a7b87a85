"""The diagnosis of a whole installation: the service itself and each worker."""

from collections.abc import Iterable
from datetime import datetime

from pydantic import Field

from redkiln.views.hardware import DoctorReport, DoctorVerdict, HardwareModel

EXIT_STATUSES: dict[DoctorVerdict, int] = {"ok": 0, "slow": 1, "blocked": 2}
"""Exit status of `redkiln doctor` and `python -m worker.hardware doctor`, for scripts."""


class WorkerDoctor(HardwareModel):
    """The last report of a live worker's doctor.

    Attributes:
        told_at: Time at which the service last received the worker's hardware status.
        report: None if the worker has not sent one yet.
    """

    worker_id: str
    hostname: str
    told_at: datetime | None = None
    report: DoctorReport | None = None


class Diagnosis(HardwareModel):
    """The answer to `GET /v1/doctor`.

    Attributes:
        verdict: Worst verdict of all reports.
        service: Checks of the service itself, with row 0.
        workers: Live workers.
    """

    verdict: DoctorVerdict
    service: DoctorReport
    workers: list[WorkerDoctor] = Field(default_factory=list)


def worst_verdict(reports: Iterable[DoctorReport]) -> DoctorVerdict:
    """Return the worst verdict of several reports; `ok` without any."""
    verdicts = [report.verdict for report in reports]
    return max(verdicts, key=EXIT_STATUSES.__getitem__, default="ok")
