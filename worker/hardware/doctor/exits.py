"""Row 18: processes that crash after their work is done."""

from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.finding import Finding, Row, bad, ok


def check_exits(evidence: Evidence) -> Finding:
    """Row 18: check for exit 139 (SIGSEGV) after everything was written."""
    crashed = [death for death in evidence.recent_deaths if death.is_complete]
    if not crashed:
        return ok("no process has crashed after its work was done")
    last = crashed[-1]
    return bad(
        "note",
        evidence=f"{len(crashed)} times, last in attempt {last.attempt_id} with status "
        f"{last.status} at {last.at:%Y-%m-%d %H:%M}",
        cause="a defect in the runtime's teardown; the results were written before and are valid",
        fix="nothing: the job has succeeded, with a warning",
    )


ROWS = (
    Row(
        18,
        "clean_exit",
        "exits after the work",
        "exit status 139 after a job that has finished",
        check_exits,
    ),
)
