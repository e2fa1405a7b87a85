"""Jobs that wait for their data set, and what happens to them when it is ready."""

from sqlmodel import Session, col, select

from redkiln.spec.problems import SpecError
from redkiln.status import JobStatus
from redkiln.views.dataset import DatasetStatus
from redkiln.views.job import Reason
from service.changes import outbox
from service.database import read_now
from service.datasets.models import Dataset
from service.datasets.readable import is_refused_for
from service.jobs.fitting import find_misfits
from service.jobs.initial import initial_problems
from service.jobs.lists.search import describe
from service.jobs.models import Job
from service.jobs.rules import fail_waiting, note_event
from service.jobs.undecided import UNDECIDED, parse_kept
from service.workers.needs import set_needs

WAITING = Reason(code="waiting", message="waiting for a worker with a free slot", retryable=True)


def decide_jobs_of(session: Session, dataset: Dataset) -> None:
    """Check the queued jobs of a data set that has just been validated; fail those it refuses."""
    statement = select(Job).where(Job.dataset_id == dataset.id, Job.status == JobStatus.QUEUED)
    for job in session.exec(statement).all():
        if is_refused_for(job.task, dataset):
            fail_waiting(session, job_id=job.id)
        else:
            _decide(session, job, dataset)


def decide_undecided(session: Session) -> int:
    """Check the queued jobs that have no task although their data set is ready.

    These were paused when it became ready, or submitted at the same moment.

    Returns:
        The number of jobs that were checked.
    """
    statement = (
        select(Job, Dataset)
        .join(Dataset, col(Dataset.id) == col(Job.dataset_id))
        .where(
            Job.status == JobStatus.QUEUED,
            Job.task == UNDECIDED,
            Dataset.status == DatasetStatus.READY,
        )
    )
    rows = session.exec(statement).all()
    for job, dataset in rows:
        _decide(session, job, dataset)
    return len(rows)


def _decide(session: Session, job: Job, dataset: Dataset) -> None:
    """Give a job the task of its data set; fail it with what its submission would have refused."""
    try:
        spec = parse_kept(job.spec, dataset)
        problems = [*find_misfits(spec, dataset), *initial_problems(session, spec, dataset)]
    except SpecError as error:
        problems = error.problems
    if problems:
        message = "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in problems)
        fail_waiting(session, job_id=job.id, message=message)
        return
    job.reason = WAITING.model_dump(mode="json")
    job.spec = spec.model_dump(mode="json")
    job.task = spec.task
    describe(job)
    set_needs(job)
    outbox(session).queued.add(job.id)
    note_event(session, job, "data_ready", {"task": spec.task}, at=read_now(session))
