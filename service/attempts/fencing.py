"""The fence: only a job's running attempt may write, and only with its own token."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Session, col

from redkiln.status import AttemptStatus
from service.attempts.models import ATTEMPT, Attempt
from service.database import database_now
from service.errors import Gone, Superseded, Unauthorized
from service.keys.models import ApiKey

_HAS_REVOKED_KEY = (
    sa.select(col(ApiKey.id))
    .where(col(ApiKey.id) == ATTEMPT.c.key_id, col(ApiKey.revoked_at).is_not(None))
    .exists()
)


def hold_fence(session: Session, attempt_id: str, *, fence: int, lease_seconds: float) -> Attempt:
    """Renew the lease and lock the attempt if it is still running under this fence.

    This also renews a lease that has expired but has not been taken away yet.

    Raises:
        Unauthorized: The worker key that claimed it is revoked.
        Superseded: The attempt has ended.
        Gone: The job was deleted.
    """
    result = session.execute(
        sa.update(ATTEMPT)
        .where(
            ATTEMPT.c.id == attempt_id,
            ATTEMPT.c.fence == fence,
            ATTEMPT.c.status == AttemptStatus.RUNNING,
            ~_HAS_REVOKED_KEY,
        )
        .values(lease_until_at=database_now(plus_seconds=lease_seconds))
        .returning(ATTEMPT.c.id)
    )
    is_held = result.first() is not None
    attempt = session.get(Attempt, attempt_id, populate_existing=True)
    if not is_held:
        _refuse_revoked(session, attempt)
    return _require_running(attempt, is_running=is_held)


def require_fence(session: Session, attempt_id: str, *, fence: int) -> Attempt:
    """Return the attempt if it is running under this fence; for requests that only read.

    Raises:
        Unauthorized: The worker key that claimed it is revoked.
        Superseded: The attempt has ended.
        Gone: The job was deleted.
    """
    attempt = session.get(Attempt, attempt_id)
    is_running = (
        attempt is not None and attempt.fence == fence and attempt.status == AttemptStatus.RUNNING
    )
    if is_running:
        _refuse_revoked(session, attempt)
    return _require_running(attempt, is_running=is_running)


def _refuse_revoked(session: Session, attempt: Attempt | None) -> None:
    if attempt is None or attempt.key_id is None or attempt.status != AttemptStatus.RUNNING:
        return
    key = session.get(ApiKey, attempt.key_id)
    if key is not None and key.revoked_at is not None:
        message = "the worker key of this attempt is revoked; stop it and send nothing more"
        raise Unauthorized(message, code="bad_key")


def _require_running(attempt: Attempt | None, *, is_running: bool) -> Attempt:
    if attempt is None:
        raise Gone("the job of this attempt was deleted")
    if not is_running:
        raise Superseded(
            f"attempt {attempt.id} is {attempt.status}; stop it and send nothing more",
            attempt_status=attempt.status,
        )
    return attempt


def renew_all(session: Session, *, lease_seconds: float) -> None:
    """Extend every running lease to a full term, because the service itself was down."""
    fresh = database_now(plus_seconds=lease_seconds)
    session.execute(
        sa.update(ATTEMPT)
        .where(ATTEMPT.c.status == AttemptStatus.RUNNING, ATTEMPT.c.lease_until_at < fresh)
        .values(lease_until_at=fresh)
    )


def has_expired(attempt: Attempt, *, now: datetime) -> bool:
    """Return whether a running attempt has sent no report for a whole lease."""
    return attempt.status == AttemptStatus.RUNNING and attempt.lease_until_at < now
