"""Row 23: parts of the worker itself that failed."""

from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.finding import Finding, Row, bad, ok
from worker.hardware.health.fault_book import WORKER


def check_parts(evidence: Evidence) -> Finding:
    """Row 23: look for faults of the worker and its observers that have not been cleared."""
    if not evidence.faults:
        return ok("every part of the worker that failed has worked again")
    part = WORKER if WORKER in evidence.faults else min(evidence.faults)
    fault = evidence.faults[part]
    others = ", ".join(sorted(evidence.faults.keys() - {part}))
    return bad(
        "slows" if part == WORKER else "note",
        evidence=f"{part} in attempt {fault.attempt_id} at {fault.at:%Y-%m-%d %H:%M}: {fault.text}"
        + (f"; also failed: {others}" if others else ""),
        cause="a library of the worker is missing, broken or of another version, or this is a "
        "defect of Redkiln",
        fix="docker compose build --no-cache worker && docker compose up --detach worker, or make "
        "clean dev in a checkout; if that changes nothing, report the trace in the worker's log",
        command="" if evidence.is_container else "make clean dev",
        details={name: seen.text for name, seen in evidence.faults.items()},
    )


ROWS = (
    Row(
        23,
        "parts_work",
        "parts of the worker",
        "`worker_fault`, `observer_failed`",
        check_parts,
    ),
)
