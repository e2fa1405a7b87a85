"""The tables of blobs that are held by uploads and of blobs that may be removed."""

from datetime import datetime

from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class BlobHold(SQLModel, table=True):
    """A blob that is being uploaded or is about to be referred to; it must not be deleted.

    Attributes:
        holder: Id of the attempt that holds it, until the attempt ends.
        is_sent: Whether the holder has sent these bytes, so that it may refer to them.
    """

    __tablename__ = "blob_hold"

    sha256: str = Field(primary_key=True)
    holder: str = Field(primary_key=True, index=True)
    at: datetime = Field(sa_type=UtcDateTime)
    is_sent: bool = False


class DiscardedBlob(SQLModel, table=True):
    """A blob that lost a reference; housekeeping deletes it if that was the last one."""

    __tablename__ = "discarded_blob"

    sha256: str = Field(primary_key=True)
    at: datetime = Field(sa_type=UtcDateTime)
