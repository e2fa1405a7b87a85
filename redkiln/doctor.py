"""What the doctor says of a whole installation: of the service itself and of each worker."""

from collections.abc import Iterable
from datetime import datetime

from pydantic import Field

from redkiln.hardware import DoctorReport, DoctorVerdict, HardwareModel

EXIT_STATUSES: dict[DoctorVerdict, int] = {"ok": 0, "slow": 1, "blocked": 2}
"""Exit status of `redkiln doctor` and `python -m worker.hardware doctor`, for scripts."""


class WorkerDoctor(HardwareModel):
    """What a live worker's doctor said last.

    Attributes:
        told_at: when the service heard from the worker's hardware last.
        report: None when it has not told yet.
    """

    worker_id: str
    hostname: str
    told_at: datetime | None = None
    report: DoctorReport | None = None


class Diagnosis(HardwareModel):
    """What `GET /v1/doctor` answers.

    Attributes:
        verdict: the worst of all reports.
        service: the service's own checks, with row 0.
        workers: the live ones.
    """

    verdict: DoctorVerdict
    service: DoctorReport
    workers: list[WorkerDoctor] = Field(default_factory=list)


def worst_verdict(reports: Iterable[DoctorReport]) -> DoctorVerdict:
    """The verdict of several reports together; `ok` where there is none."""
    verdicts = [report.verdict for report in reports]
    return max(verdicts, key=EXIT_STATUSES.__getitem__, default="ok")
