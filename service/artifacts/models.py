"""The table of artifacts."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class Artifact(SQLModel, table=True):
    """A published file of a job; it never changes.

    Attributes:
        sha256: Digest under which the storage keeps the bytes.
        verified: Whether a model passed its check against torch; None for other files.
    """

    __tablename__ = "artifact"
    __table_args__ = (sa.UniqueConstraint("job_id", "name"),)

    id: str = Field(primary_key=True)
    job_id: str = Field(index=True)
    attempt_id: str
    name: str
    kind: str
    media_type: str
    sha256: str = Field(index=True)
    size_bytes: int = Field(sa_type=sa.BigInteger)
    verified: bool | None = None
    created_at: datetime = Field(sa_type=UtcDateTime)
