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
    command: str = ""
    on_host: bool = False
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
    command: str = "",
    on_host: bool = False,
    details: dict[str, Any] | None = None,
) -> Finding:
    """Report a problem: its evidence, its cause, and the exact thing to do.

    Args:
        severity: Whether it blocks jobs, slows them, or neither.
        evidence: Facts that show the problem.
        cause: Why that is so.
        fix: The thing to do, for people.
        command: A command that does it and can be typed as it is, or an empty text.
        on_host: Whether it is typed on the host, and not in this container.
        details: Further facts for programs.
    """
    return Finding("bad", evidence, severity, cause, fix, command, on_host, details or {})


def set_command(assignments: str, evidence: Evidence) -> str:
    """Return the command that sets variables: in this shell, or for the worker's container.

    Args:
        assignments: `NAME=value`, several separated by blanks.
        evidence: Evidence of this machine.
    """
    if not evidence.is_container:
        return f"export {assignments}"
    return f"printf '%s\\n' {assignments} >> worker.env && docker compose up --detach worker"


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
            command=found.command,
            on_host=found.on_host,
            details=found.details,
        )
