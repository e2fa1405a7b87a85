"""The table of the audit log."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class AuditEntry(SQLModel, table=True):
    """One change, or one refused attempt at one.

    Attributes:
        key_id: Id of the key; `local` on a service without keys.
        project: Project of the key.
        action: Method and path of the request, such as `POST /v1/jobs/{job_id}/cancel`.
        object: Id or name of what was changed.
        outcome: `done`, or the code of the error.
        address: Address that the request came from.
    """

    __tablename__ = "audit"
    __table_args__ = (
        sa.Index("ix_audit_key_id", "key_id", "id"),
        sa.Index("ix_audit_object", "object", "id"),
    )

    id: str = Field(primary_key=True)
    at: datetime = Field(sa_type=UtcDateTime, index=True)
    key_id: str
    key_name: str
    project: str
    action: str
    object: str
    outcome: str
    address: str
