"""Lists the audit log, and forgets its old entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session, col, delete, select

from redkiln.views.access.audit import AuditView
from service.audit.models import AuditEntry
from service.database import read_now


@dataclass(frozen=True)
class Wanted:
    """Which entries to list; an entry must match every field that is not None.

    Attributes:
        key: Id or name of the key.
        action: Text that the action contains.
        object: Id or name of what was changed.
        since: Time of the oldest entry to list.
    """

    key: str | None = None
    project: str | None = None
    action: str | None = None
    object: str | None = None
    outcome: str | None = None
    since: datetime | None = None


def list_entries(
    session: Session, wanted: Wanted, *, after: str | None, limit: int
) -> Sequence[AuditView]:
    """Return entries, newest first."""
    statement = select(AuditEntry)
    if wanted.key is not None:
        same = (AuditEntry.key_id == wanted.key) | (AuditEntry.key_name == wanted.key)
        statement = statement.where(same)
    if wanted.action is not None:
        statement = statement.where(
            col(AuditEntry.action).icontains(wanted.action, autoescape=True)
        )
    for name in ("project", "object", "outcome"):
        value = getattr(wanted, name)
        if value is not None:
            statement = statement.where(col(getattr(AuditEntry, name)) == value)
    if wanted.since is not None:
        statement = statement.where(AuditEntry.at >= wanted.since)
    if after is not None:
        statement = statement.where(AuditEntry.id < after)
    found = session.exec(statement.order_by(col(AuditEntry.id).desc()).limit(limit))
    return [AuditView.model_validate(row.model_dump()) for row in found]


def forget_old_entries(session: Session, *, days: float) -> None:
    """Delete entries that are older than so many days."""
    oldest = read_now(session) - timedelta(days=days)
    session.exec(delete(AuditEntry).where(col(AuditEntry.at) < oldest))
