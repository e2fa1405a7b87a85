"""Frees a GPU for its owner, and gives it back to the jobs."""

from sqlmodel import Session

from redkiln.status import JobStatus
from redkiln.views.hardware import WorkerGpu
from service.database import read_now
from service.errors import Conflict, NotFound
from service.gpus.models import GpuHeld
from service.gpus.owners import check_gpu
from service.gpus.rules import list_gpus
from service.jobs.models import Job
from service.jobs.steering import pause, resume
from service.keys.caller import Caller
from service.settings import Settings


def free_gpu(
    session: Session, settings: Settings, *, caller: Caller, worker_id: str, key: str
) -> WorkerGpu:
    """Pause the job of a GPU, and keep the GPU free until it is given back.

    Raises:
        NotFound: No live worker has this GPU.
        Forbidden: A job of another project uses it.
    """
    gpu = _get_gpu(session, settings, worker_id, key)
    check_gpu(session, caller, gpu)
    now = read_now(session)
    held = session.get(GpuHeld, (worker_id, key))
    if held is None:
        held = GpuHeld(worker_id=worker_id, key=key, asked_at=now)
        session.add(held)
    job = None if gpu.job_id is None else session.get(Job, gpu.job_id)
    # A job that began just before the first request is seen only by a later one.
    if job is not None and job.status in (JobStatus.RUNNING, JobStatus.PAUSING):
        held.job_id = pause(session, job.id, now=now).id
    session.flush()
    return _get_gpu(session, settings, worker_id, key)


def give_back(
    session: Session, settings: Settings, *, caller: Caller, worker_id: str, key: str
) -> WorkerGpu:
    """Let a GPU have jobs again, and resume the job that was paused for it.

    Raises:
        NotFound: No live worker has this GPU.
        Conflict: Its job is still saving its checkpoint.
        Forbidden: Another project's job was paused to free it.
    """
    check_gpu(session, caller, _get_gpu(session, settings, worker_id, key))
    held = session.get(GpuHeld, (worker_id, key))
    if held is not None:
        job = None if held.job_id is None else session.get(Job, held.job_id)
        if job is not None and job.status == JobStatus.PAUSING:
            message = f"job {job.id} is still saving its checkpoint; give the GPU back after that"
            raise Conflict(message, code="job_pausing")
        if job is not None and job.status == JobStatus.PAUSED:
            resume(session, job.id, now=read_now(session))
        session.delete(held)
        session.flush()
    return _get_gpu(session, settings, worker_id, key)


def _get_gpu(session: Session, settings: Settings, worker_id: str, key: str) -> WorkerGpu:
    for gpu in list_gpus(session, settings, worker_id=worker_id):
        if gpu.key == key:
            return gpu
    message = f"no live worker has the GPU {worker_id}/{key}; GET /v1/gpus lists them"
    raise NotFound(message)
