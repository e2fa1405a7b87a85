"""The result of a check, before its row adds a number and a title."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from redkiln.views.hardware import DoctorCheck
from worker.hardware.doctor.evidence import Evidence

Severity = Literal["blocks", "slows", "note"]


@dataclass(frozen=True)
class Finding:
    """A verdict with its evidence."""

    verdict: Literal["ok", "bad", "unknown"]
    evidence: str
    severity: Severity = "note"
    cause: str = ""
    fix: str = ""
    details: dict[str, Any] = field(default_factory=dict)


def ok(evidence: str, **details: Any) -> Finding:
    """Report that everything is fine, and the evidence for it."""
    return Finding("ok", evidence, details=details)


def unknown(evidence: str, *, fix: str = "") -> Finding:
    """Report that this cannot be determined here; `fix` says how it could be."""
    return Finding("unknown", evidence, fix=fix)


def bad(
    severity: Severity,
    *,
    evidence: str,
    cause: str,
    fix: str,
    details: dict[str, Any] | None = None,
) -> Finding:
    """Report a problem: what was found, its cause, and the exact thing to do."""
    return Finding("bad", evidence, severity, cause, fix, details or {})


@dataclass(frozen=True)
class Row:
    """One known failure and its check.

    Attributes:
        number: Number in docs/doctor.md.
        symptom: The symptom that a user sees.
        check: Judges the evidence.
    """

    number: int
    id: str
    title: str
    symptom: str
    check: Callable[[Evidence], Finding]

    def examine(self, evidence: Evidence) -> DoctorCheck:
        """Check one machine."""
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
