"""How long a job has run."""

from datetime import UTC, datetime

from redkiln.views.job import JobView


def running_seconds(job: JobView, now: datetime | None = None) -> float | None:
    """Return the time in which attempts of a job ran, without its pauses; None if none has."""
    if not job.attempts:
        return None
    until = now or datetime.now(UTC)
    spans = [(attempt.finished_at or until) - attempt.started_at for attempt in job.attempts]
    return sum(span.total_seconds() for span in spans)
