"""The table of code bundles."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class Bundle(SQLModel, table=True):
    """A folder's code as a tar.

    Attributes:
        sha256: Digest under which the storage keeps the bytes.
        used_at: Time at which it was last uploaded, looked up or named by a job.
    """

    __tablename__ = "bundle"

    sha256: str = Field(primary_key=True)
    size_bytes: int = Field(sa_type=sa.BigInteger)
    created_at: datetime = Field(sa_type=UtcDateTime)
    used_at: datetime = Field(sa_type=UtcDateTime, index=True)
