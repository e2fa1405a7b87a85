"""The table of messages about jobs, which is also the log of their delivery."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class Notice(SQLModel, table=True):
    """A message about a job to one target.

    Attributes:
        target: Label of the target (`service.notices.targets.Target.label`), without its secrets.
        event: The status that the job ended with.
        status: `pending`, `sent` or `failed`.
        due_at: Time of the next try.
        error: Why the last try failed.
    """

    __tablename__ = "notice"
    __table_args__ = (sa.Index("ix_notice_due", "status", "due_at"),)

    id: str = Field(primary_key=True)
    job_id: str
    target: str
    event: str
    status: str = "pending"
    num_tries: int = 0
    due_at: datetime = Field(sa_type=UtcDateTime)
    created_at: datetime = Field(sa_type=UtcDateTime)
    sent_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    error: str | None = None
