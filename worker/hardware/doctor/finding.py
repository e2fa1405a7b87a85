"""What a check says, before its row gives it a number and a title."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from redkiln.views.hardware import DoctorCheck
from worker.hardware.doctor.evidence import Evidence

Severity = Literal["blocks", "slows", "note"]


@dataclass(frozen=True)
class Finding:
    """A verdict with what it rests on."""

    verdict: Literal["ok", "bad", "unknown"]
    evidence: str
    severity: Severity = "note"
    cause: str = ""
    fix: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def ok(evidence: str, **details: Any) -> Finding:
    """All is well, and this is how one knows."""
    return Finding("ok", evidence, details=details)


def unknown(evidence: str, *, fix: str = "") -> Finding:
    """It cannot be told from here; `fix` says how it could be."""
    return Finding("unknown", evidence, fix=fix)


def bad(
    severity: Severity,
    *,
    evidence: str,
    cause: str,
    fix: str,
    details: dict[str, Any] | None = None,
) -> Finding:
    """Something is wrong: what was seen, why it is so, and the exact thing to do."""
    return Finding("bad", evidence, severity, cause, fix, details or {})


@dataclass(frozen=True)
class Row:
    """One known failure and how it is found.

    Attributes:
        number: in docs/doctor.md.
        symptom: what a person sees of it.
        check: judges the evidence.
    """

    number: int
    id: str
    title: str
    symptom: str
    check: Callable[[Evidence], Finding]

    def examine(self, evidence: Evidence) -> DoctorCheck:
        """The row's check on one machine."""
        found = self.check(evidence)
        return DoctorCheck(
            id=self.id,
            row=self.number,
            title=self.title,
            verdict=found.verdict,
            severity=found.severity,
            evidence=found.evidence,
            cause=found.cause,
            fix=found.fix,
            details=found.details,
        )
