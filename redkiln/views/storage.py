"""What takes space on the service's storage, and what can be deleted."""

from typing import Literal

from pydantic import BaseModel

from redkiln.views.overview import Disk

StorageKind = Literal[
    "datasets", "artifacts", "checkpoints", "bundles", "uploads", "logs", "database"
]


class KindUse(BaseModel):
    """The space of one kind. Equal bytes are stored once, but counted each time.

    Attributes:
        count: Number of files or rows.
        freeable_bytes: Part that can be deleted without stopping a job.
        how: How to free it.
    """

    kind: StorageKind
    bytes: int
    count: int
    freeable_bytes: int
    how: str


class LargeItem(BaseModel):
    """A job or data set that can be deleted now.

    Attributes:
        bytes: Space of its files and checkpoints, or of its archive.
        url: Address to send `DELETE` to.
    """

    kind: Literal["job", "dataset"]
    id: str
    name: str
    bytes: int
    url: str


class StorageUse(BaseModel):
    """The answer to `GET /v1/storage`.

    Attributes:
        largest: Items that free most if they are deleted, largest first; at most 20.
    """

    disk: Disk
    kinds: list[KindUse]
    largest: list[LargeItem]
