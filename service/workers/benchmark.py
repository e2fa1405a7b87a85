"""Reads the newest benchmark of a worker from the files of its job."""

from pydantic import ValidationError
from sqlmodel import Session, col, select

from redkiln.status import AttemptStatus
from redkiln.tasks.benchmark import NAME
from redkiln.views.benchmark import FILE_NAME, BenchmarkResult, WorkerBenchmark
from service.artifacts.models import Artifact
from service.attempts.models import Attempt
from service.errors import NotFound
from service.jobs.models import Job
from service.services import Services
from service.workers.rules import get_worker

MOST_BYTES = 4 * 1024**2


def get_benchmark(services: Services, worker_id: str) -> WorkerBenchmark:
    """Return the newest benchmark that a worker has measured.

    Raises:
        NotFound: There is no such worker, or it has measured none.
    """

    def find(session: Session) -> tuple[Job, Artifact] | None:
        get_worker(session, services.settings, worker_id)
        return _find_newest(session, worker_id)

    found = services.database.read(find)
    if found is None:
        message = f"worker {worker_id!r} has measured no benchmark; `redkiln bench` starts one"
        raise NotFound(message, code="no_benchmark")
    job, file = found
    result = _read(services, file.sha256)
    return WorkerBenchmark(
        job_id=job.id, job_name=job.name, finished_at=job.finished_at, result=result
    )


def _find_newest(session: Session, worker_id: str) -> tuple[Job, Artifact] | None:
    statement = (
        select(Job, Artifact)
        .join(Attempt, col(Attempt.job_id) == Job.id)
        .join(Artifact, col(Artifact.job_id) == Job.id)
        .where(Job.task == NAME, Artifact.name == FILE_NAME, Artifact.size_bytes <= MOST_BYTES)
        .where(Attempt.worker_id == worker_id, Attempt.status == AttemptStatus.SUCCEEDED)
        .order_by(col(Job.finished_at).desc())
    )
    row = session.exec(statement).first()
    return None if row is None else (row[0], row[1])


def _read(services: Services, sha256: str) -> BenchmarkResult:
    try:
        with services.storage.local_copy(sha256) as path:
            return BenchmarkResult.model_validate_json(path.read_bytes())
    except ValidationError as error:
        message = f"{FILE_NAME} is not a benchmark that this release can read; run it again"
        raise NotFound(message, code="no_benchmark") from error
