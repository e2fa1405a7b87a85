"""What the agent writes to the follower, each message as one line of JSON.

First a `RunFacts`, then an `Ending` when the attempt has ended. The follower answers with a warning
about what did not arrive, or with nothing, and exits.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

RunStatus = Literal["RUNNING", "FINISHED", "FAILED", "KILLED"]


class RunFacts(BaseModel):
    """The events to report, and the name and tags of the run.

    Attributes:
        experiment: Name of the experiment that the run belongs to.
    """

    events_path: Path
    experiment: str
    job_id: str
    job_name: str
    tags: Mapping[str, str]


class Ending(BaseModel):
    """How an attempt ended.

    Attributes:
        status: New status of the run; RUNNING if the job continues later.
        files: Files to upload.
        timeout_seconds: How long to try.
    """

    status: RunStatus
    files: list[Path] = []
    timeout_seconds: float
