"""What the guard found in the first steps, as data and in words."""

from typing import Literal

from pydantic import BaseModel

from worker.results.evidence import DeviceWork

Kind = Literal["cpu_operation", "host_synchronisation"]

BACKWARD = "in the backward pass"
"""The place of what autograd's own threads do, which have no line of Python."""


class Finding(BaseModel):
    """Something that makes the device wait.

    Attributes:
        what: the operator, with the direction of a copy.
        where: the line of Python that led to it.
        count: over all audited steps.
        bytes: of the largest tensor it worked on.
    """

    kind: Kind
    what: str
    where: str
    count: int = 0
    bytes: int = 0


class FirstSteps(BaseModel):
    """What the guard found, for the report."""

    work: DeviceWork
    audited_steps: int
    findings: list[Finding]


def describe_finding(finding: Finding) -> str:
    """Say a finding: `nonzero x4 (512 KiB) at worker/trainer/loop/loop.py:160 in _train_step`."""
    place = BACKWARD if finding.where == BACKWARD else f"at {finding.where}"
    return f"{finding.what} x{finding.count} ({finding.bytes / 1024:,.0f} KiB) {place}"
