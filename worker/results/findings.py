"""The guard's findings in the first steps, as data and as text."""

from typing import Literal

from pydantic import BaseModel

from worker.results.evidence import DeviceWork

Kind = Literal["cpu_operation", "host_synchronisation"]

BACKWARD = "in the backward pass"
"""Place of operators that run in autograd's own threads, which have no line of Python."""


class Finding(BaseModel):
    """An operator that makes the device wait.

    Attributes:
        what: The operator, with the direction of a copy.
        where: The line of Python that called it.
        count: Number of calls in all audited steps.
        bytes: Size of the largest tensor it worked on.
    """

    kind: Kind
    what: str
    where: str
    count: int = 0
    bytes: int = 0


class FirstSteps(BaseModel):
    """The guard's findings, for the report."""

    work: DeviceWork
    audited_steps: int
    findings: list[Finding]


def describe_finding(finding: Finding) -> str:
    """Describe a finding: `nonzero x4 (512 KiB) at worker/trainer/loop/loop.py:160 in _step`."""
    place = BACKWARD if finding.where == BACKWARD else f"at {finding.where}"
    return f"{finding.what} x{finding.count} ({finding.bytes / 1024:,.0f} KiB) {place}"
