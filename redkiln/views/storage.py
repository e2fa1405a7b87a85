"""What takes space on the service's storage, and what can be deleted."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from redkiln.views.overview import Disk

StorageKind = Literal[
    "datasets", "artifacts", "checkpoints", "bundles", "uploads", "logs", "database"
]

RetentionRuleName = Literal["jobs", "files", "checkpoints"]


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


class RetentionItem(BaseModel):
    """A job of which a rule would delete something.

    Attributes:
        bytes: Space of what would be deleted.
    """

    id: str
    name: str
    finished_at: datetime
    bytes: int


class RetentionRule(BaseModel):
    """What a rule would delete now.

    Attributes:
        rule: `jobs` deletes all of a job, `files` its published files, `checkpoints` its
            checkpoints.
        setting: The setting of the service with the time.
        days: Days after the job's end; None: the rule is off.
        count: Number of jobs.
        bytes: Space of what would be deleted; equal bytes are stored once, but counted each time.
        num_kept: Old enough jobs that are kept because a registered version or a job that has not
            ended needs them.
        oldest: The jobs that ended first, at most 100.
    """

    rule: RetentionRuleName
    setting: str
    days: float | None
    count: int = 0
    bytes: int = 0
    num_kept: int = 0
    oldest: list[RetentionItem] = Field(default_factory=list)


class RetentionPlan(BaseModel):
    """The answer to `GET /v1/storage/retention`."""

    rules: list[RetentionRule]
