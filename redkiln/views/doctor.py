"""Reports of the doctor: of one machine, and of the whole installation with all its workers."""

from collections.abc import Iterable
from datetime import datetime

from pydantic import Field

from redkiln.views.hardware import (
    FAILED_TRIALS,
    Component,
    DoctorCheck,
    DoctorTrial,
    DoctorVerdict,
    GpuReading,
    HardwareModel,
)
from redkiln.views.self_test import SelfTestReport

EXIT_STATUSES: dict[DoctorVerdict, int] = {"ok": 0, "slow": 1, "blocked": 2}
"""Exit status of `redkiln doctor` and `python -m worker.hardware doctor`, for scripts."""


class DoctorReport(HardwareModel):
    """All checks of one machine: first what blocks jobs, then what slows them.

    Attributes:
        components: Kernel, driver, firmware, ROCm and torch, with what the cards found need.
        gpus: One reading of each GPU.
        trials: Operations that were tried, if that was asked for.
        self_tests: The newest self-test of each GPU, with the worst result of each area, type and
            library; `GET /v1/workers/{worker_id}/self-tests` returns them.
        remembered: Cure of an earlier problem of this machine; empty if nothing is known.
    """

    at: datetime
    hostname: str
    versions: dict[str, str | None] = Field(default_factory=dict)
    checks: list[DoctorCheck] = Field(default_factory=list)
    components: list[Component] = Field(default_factory=list)
    gpus: list[GpuReading] = Field(default_factory=list)
    trials: list[DoctorTrial] = Field(default_factory=list)
    self_tests: list[SelfTestReport] = Field(default_factory=list)
    remembered: str = ""

    @property
    def first(self) -> DoctorCheck | None:
        """The check to act on first: of the most serious ones, one with a command if there is."""
        wrong = [c for c in self.checks if c.verdict == "bad" and c.follows is None]
        most_serious = [c for c in wrong if c.severity == wrong[0].severity]
        return next((c for c in most_serious if c.command), wrong[0] if wrong else None)

    @property
    def is_blocked(self) -> bool:
        """Whether something prevents training on this machine's GPUs."""
        return any(c.verdict == "bad" and c.severity == "blocks" for c in self.checks)

    @property
    def verdict(self) -> DoctorVerdict:
        """The worst verdict of all checks and trials."""
        if self.is_blocked or any(t.verdict in FAILED_TRIALS for t in self.trials):
            return "blocked"
        is_slow = any(c.verdict == "bad" and c.severity == "slows" for c in self.checks)
        return "slow" if is_slow else "ok"


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
