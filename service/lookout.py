"""One look for all streams of jobs at what another service process may have changed.

A stream is woken by changes in the same process. Without this, each would also have to ask the
database from time to time; a thousand idle streams would then cost a processor core.
"""

import asyncio
from collections.abc import Sequence

import sqlalchemy as sa
import structlog
from anyio import to_thread

from service.changes import Changes
from service.database import Database
from service.errors import ServiceError
from service.jobs.models import JOB

LOOK_SECONDS = 2.0
_BATCH = 500
_REVISIONS = sa.select(JOB.c.id, JOB.c.revision).where(
    JOB.c.id.in_(sa.bindparam("job_ids", expanding=True))
)

log = structlog.get_logger(__name__)


class Lookout:
    """Wakes the followers of jobs whose revision has changed since the last look."""

    def __init__(self, database: Database, changes: Changes) -> None:
        self._database = database
        self._changes = changes
        self._seen: dict[str, int | None] = {}

    async def run(self) -> None:
        """Look every two seconds while jobs are followed; runs until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Look once. A job that is followed for the first time wakes, too."""
        job_ids = self._changes.followed()
        if not job_ids:
            self._seen = {}
            return
        try:
            found = await to_thread.run_sync(self._read, job_ids)
        except ServiceError as error:
            log.warning("lookout_postponed", cause=error.detail)
            return
        seen = {job_id: found.get(job_id) for job_id in job_ids}
        changed = {job_id for job_id in job_ids if seen[job_id] != self._seen.get(job_id, -1)}
        self._seen = seen
        self._changes.publish(changed)

    def _read(self, job_ids: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for start in range(0, len(job_ids), _BATCH):
            part = {"job_ids": list(job_ids[start : start + _BATCH])}
            found |= dict(map(tuple, self._database.execute_read(_REVISIONS, part)))
        return found
