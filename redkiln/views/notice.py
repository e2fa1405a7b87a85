"""Messages about ended jobs, as the API shows them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel


class NoticeView(BaseModel):
    """A message about the end of a job to one target, and its delivery.

    Attributes:
        target: Kind and host of the target, and a digest of its URL, which may hold a secret.
        event: Status that the job ended with.
        due_at: Time of the next try, while the status is `pending`.
        error: Why the last try failed.
    """

    id: str
    job_id: str
    target: str
    event: str
    status: Literal["pending", "sent", "failed"]
    num_tries: int
    due_at: datetime
    created_at: datetime
    sent_at: datetime | None = None
    error: str | None = None


class NoticeTest(BaseModel):
    """The result of a test message to one target."""

    target: str
    is_sent: bool
    error: str | None = None
