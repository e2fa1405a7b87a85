"""Commits checkpoints, from which a job can resume; keeps the best and the newest few."""

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session, col, select

from redkiln.protocol import CheckpointCommit, CheckpointReceipt
from service.attempts.fencing import hold_fence
from service.attempts.models import Attempt, Checkpoint
from service.blobs.rules import discard, is_own
from service.database import read_now
from service.errors import Unprocessable
from service.ids import new_id
from service.jobs.rules import get_job, note_event
from service.settings import Settings
from service.storage import Storage

KEPT = 2
"""Newest checkpoints kept in addition to the best one, so that a damaged one has a predecessor. A
spec may ask for more (`training.keep_checkpoints`)."""


def commit_checkpoint(
    session: Session,
    settings: Settings,
    storage: Storage,
    *,
    attempt_id: str,
    fence: int,
    commit: CheckpointCommit,
) -> CheckpointReceipt:
    """Record an uploaded checkpoint; committing it again changes nothing.

    Checkpoints of earlier attempts after the step that this attempt resumed from are removed: the
    attempt makes these steps, and so their checkpoints, again.

    Raises:
        Superseded: The attempt no longer belongs to its worker.
        Unprocessable: Its bytes are not stored.
    """
    attempt = hold_fence(session, attempt_id, fence=fence, lease_seconds=settings.lease_seconds)
    require_stored(storage, commit.sha256, size_bytes=commit.size_bytes)
    if not is_own(session, commit.sha256, attempt_id=attempt.id, job_id=attempt.job_id):
        raise Unprocessable(f"{commit.sha256} is not stored; upload it first", code="blob_missing")
    job = get_job(session, attempt.job_id, lock=True)
    rows = list(
        session.exec(
            select(Checkpoint).where(Checkpoint.job_id == job.id).order_by(col(Checkpoint.step))
        )
    )
    valid = [row for row in rows if not _is_of_an_undone_run(row, attempt)]
    for row in valid:
        if (row.step, row.sha256) == (commit.step, commit.sha256):
            row.attempt_id = attempt.id  # it may have gone back further and made this step again
            return CheckpointReceipt(kept_steps=[row.step for row in rows])
    before = [row for row in valid if row.step < commit.step]
    for row in rows:
        if row not in before:
            _remove(session, row)
    now = read_now(session)
    if commit.is_best:
        for row in before:
            row.is_best = False
    new = Checkpoint(
        id=new_id("ckpt"),
        job_id=job.id,
        attempt_id=attempt.id,
        created_at=now,
        **commit.model_dump(),
    )
    session.add(new)
    newest = job.spec.get("training", {}).get("keep_checkpoints", KEPT)
    kept = choose_kept([(row.step, row.is_best) for row in (*before, new)], newest=newest)
    for row in before:
        if row.step not in kept:
            _remove(session, row)
    facts = {"step": commit.step, "size_bytes": commit.size_bytes, "is_best": commit.is_best}
    note_event(session, job, "committed", facts, at=now, attempt_id=attempt.id)
    return CheckpointReceipt(kept_steps=sorted(kept))


def copy_newest(session: Session, *, source_id: str, job_id: str, at: datetime) -> None:
    """Give a new job the newest checkpoint of another one, which its first attempt restores.

    Its bytes are shared: they are kept as long as one of the two jobs needs them.
    """
    newest = find_newest(session, source_id)
    if newest is not None:
        copied = newest.model_dump(exclude={"id", "job_id", "created_at", "is_best"})
        session.add(Checkpoint(id=new_id("ckpt"), job_id=job_id, created_at=at, **copied))


def find_newest(session: Session, job_id: str) -> Checkpoint | None:
    """Return the newest checkpoint of a job; None if it has none."""
    statement = select(Checkpoint).where(Checkpoint.job_id == job_id)
    return session.exec(statement.order_by(col(Checkpoint.step).desc()).limit(1)).first()


def choose_kept(checkpoints: Sequence[tuple[int, bool]], *, newest: int = KEPT) -> set[int]:
    """Return the steps to keep of (step, is_best) pairs: the best and the `newest` last ones."""
    last = sorted(step for step, _ in checkpoints)[-newest:]
    return {*last, *(step for step, is_best in checkpoints if is_best)}


def require_stored(storage: Storage, sha256: str, *, size_bytes: int) -> None:
    """Check that a blob is stored and has the announced size.

    Raises:
        Unprocessable: It is missing or has another size; upload it (again).
    """
    stored = storage.stat(sha256)
    if stored is None:
        raise Unprocessable(f"{sha256} is not stored; upload it first", code="blob_missing")
    if stored.size_bytes != size_bytes:
        raise Unprocessable(
            f"{sha256} has {stored.size_bytes} bytes, not {size_bytes} bytes", code="size_mismatch"
        )


def _is_of_an_undone_run(row: Checkpoint, attempt: Attempt) -> bool:
    """Return whether an earlier attempt made it after the step that this attempt resumed from."""
    first_step = -1 if attempt.resumed_from_step is None else attempt.resumed_from_step
    return row.attempt_id != attempt.id and row.step > first_step


def _remove(session: Session, row: Checkpoint) -> None:
    session.delete(row)
    session.flush()
    discard(session, [row.sha256])
