"""A service over a real database, and calls of workers that may have lost their attempts."""

import hashlib
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlmodel import select

from redkiln.protocol import ClaimRequest, HelloRequest
from redkiln.status import AttemptStatus, JobStatus
from redkiln.version import __version__
from service.app import build_services
from service.attempts.claim import claim
from service.attempts.fencing import hold_fence
from service.attempts.finish import finish
from service.attempts.models import Attempt
from service.blobs.rules import hold
from service.changes import Changes
from service.errors import Gone, Superseded
from service.jobs.models import Job
from service.migrations.metadata import METADATA
from service.settings import Settings
from service.workers.rules import hello

WORKERS = ["wrk_00000001", "wrk_00000002"]


@dataclass
class Held:
    """An attempt as a worker holds it, even if it has lost the attempt."""

    id: str
    job_id: str
    fence: int
    seq: int = 0
    steps: int = 0
    claim: ClaimRequest | None = None
    finished: list = field(default_factory=list)


def open_services(state_dir):
    return build_services(Settings(state_dir=state_dir, min_free_bytes=0), Changes())


class Ground:
    """One service in a separate folder, copied from a migrated one."""

    def __init__(self, template):
        self.state_dir = Path(tempfile.mkdtemp()) / "state"
        shutil.copytree(template, self.state_dir)
        self.services = open_services(self.state_dir)
        self.boots = dict.fromkeys(WORKERS, 0)
        self.num_claims = 0
        self.ended = {}
        for worker in WORKERS:
            self.write(lambda s, w=worker: hello(s, self.greeting(w)))

    def close(self):
        self.services.database.close()
        shutil.rmtree(self.state_dir.parent)

    def write(self, function):
        return self.services.database.write(function)

    def greeting(self, worker):
        return HelloRequest(
            worker_id=worker,
            boot_id=str(self.boots[worker]),
            protocol=1,
            version=__version__,
            hostname="h",
            slots=1,
        )

    def fenced(self, held, function):
        """Run a write of an attempt; a worker that has lost it must not change anything."""
        row = next(iter(self.rows(Attempt, Attempt.id == held.id)), None)
        if row is not None and row.status == AttemptStatus.RUNNING:
            return self.write(function)
        before = self.dump()
        with pytest.raises(Gone if row is None else Superseded):
            self.write(function)
        assert self.dump() == before
        return None

    def finish(self, session, held, request):
        services = self.services
        return finish(
            session,
            services.settings,
            services.storage,
            attempt_id=held.id,
            fence=held.fence,
            request=request,
        )

    def store(self, session, held, data):
        hold_fence(session, held.id, fence=held.fence, lease_seconds=90)
        hold(session, hashlib.sha256(data).hexdigest(), holder=held.id, is_sent=True)
        self.services.storage.put([data])

    def claim(self, request):
        services = self.services
        return claim(services.database, services.settings, request, secret=services.secret)

    def best_queued(self):
        queued = self.rows(Job, Job.status == JobStatus.QUEUED)
        return min(queued, key=lambda job: (-job.priority, job.id)).id if queued else None

    def rows(self, table, *conditions):
        return self.services.database.read(lambda s: s.exec(select(table).where(*conditions)).all())

    def job(self, job_id):
        (job,) = self.rows(Job, Job.id == job_id)
        return job

    def status(self, job_id):
        found = self.rows(Job, Job.id == job_id)
        return found[0].status if found else None

    def dump(self):
        def read(session):
            return {
                name: sorted(map(tuple, session.execute(sa.select(table)).all()), key=repr)
                for name, table in METADATA.tables.items()
            }

        return self.services.database.read(read)
