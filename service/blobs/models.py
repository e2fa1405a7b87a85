"""The tables of blobs that are held by uploads and of blobs that may be removed."""

from datetime import datetime

from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class BlobHold(SQLModel, table=True):
    """Somebody is about to refer to a blob, or is uploading it; it must not be removed.

    Attributes:
        holder: id of the attempt (or whatever else) that holds it, until that ends.
    """

    __tablename__ = "blob_hold"

    sha256: str = Field(primary_key=True)
    holder: str = Field(primary_key=True, index=True)
    at: datetime = Field(sa_type=UtcDateTime)


class DiscardedBlob(SQLModel, table=True):
    """A blob that lost a reference; housekeeping removes it when that was the last one."""

    __tablename__ = "discarded_blob"

    sha256: str = Field(primary_key=True)
    at: datetime = Field(sa_type=UtcDateTime)
