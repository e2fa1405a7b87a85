"""What a project's keys see and may do of GPUs that run another project's jobs."""

from collections.abc import Iterable, Sequence

from sqlmodel import Session, col, select

from redkiln.views.hardware import WorkerGpu
from service.errors import Forbidden
from service.gpus.models import GpuHeld
from service.jobs.models import Job
from service.keys.caller import Caller


def hide_jobs(
    session: Session, gpus: Sequence[WorkerGpu], *, project: str | None
) -> list[WorkerGpu]:
    """Return GPUs without the jobs of other projects; a busy one keeps its `attempt_id`.

    Args:
        session: Reading session.
        gpus: The GPUs.
        project: Project whose jobs are shown; None for all.
    """
    if project is None:
        return list(gpus)
    held = (gpu.hold.job_id for gpu in gpus if gpu.hold is not None)
    own = _own_of(session, [*(gpu.job_id for gpu in gpus), *held], project)
    return [_hide(gpu, own) for gpu in gpus]


def check_gpu(session: Session, caller: Caller, gpu: WorkerGpu) -> None:
    """Check that a caller may pause the job of a GPU, or resume the one that was paused for it.

    Raises:
        Forbidden: The job belongs to another project.
    """
    if caller.sees is None:
        return
    held = session.get(GpuHeld, (gpu.worker_id, gpu.key))
    named = {gpu.job_id, None if held is None else held.job_id} - {None}
    if named - _own_of(session, named, caller.sees):
        message = "a job of another project uses this GPU; ask an admin to free it or give it back"
        raise Forbidden(message, code="other_project")


def _own_of(session: Session, job_ids: Iterable[str | None], project: str) -> set[str | None]:
    named = [job_id for job_id in job_ids if job_id is not None]
    own = select(Job.id).where(col(Job.id).in_(named), Job.project == project)
    return {*session.exec(own)} if named else set()


def _hide(gpu: WorkerGpu, own: set[str | None]) -> WorkerGpu:
    hold = gpu.hold
    if hold is not None and hold.job_id not in own:
        hold = hold.model_copy(update={"job_id": None})
    job_id = gpu.job_id if gpu.job_id in own else None
    return gpu.model_copy(update={"job_id": job_id, "hold": hold})
