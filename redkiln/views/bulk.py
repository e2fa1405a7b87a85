"""The answer to a change of many jobs."""

from pydantic import BaseModel, Field

from redkiln.status import JobStatus


class BulkJob(BaseModel):
    """A job that was changed.

    Attributes:
        status: Its status after the change; that of a deleted job before it.
    """

    id: str
    name: str
    status: JobStatus


class BulkRefusal(BaseModel):
    """A job that was selected but not changed.

    Attributes:
        code: Code of the reason, as in the answer to a change of this job alone.
        message: The reason, and what to do.
    """

    id: str
    name: str
    code: str
    message: str


class BulkChange(BaseModel):
    """What became of the selected jobs, newest first.

    Attributes:
        dry_run: Whether nothing was changed: `done` then lists what would be.
        has_more: Whether further jobs are selected; repeat the request with `after=last_id`.
        last_id: Id of the last job that was looked at.
    """

    dry_run: bool
    done: list[BulkJob] = Field(default_factory=list)
    refused: list[BulkRefusal] = Field(default_factory=list)
    has_more: bool = False
    last_id: str | None = None
