"""GPUs over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from sqlmodel import Session

from redkiln.views.hardware import WorkerGpu
from redkiln.views.page import Page
from service.gpus.freeing import free_gpu, give_back
from service.gpus.owners import hide_jobs
from service.gpus.rules import list_gpus
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.keys.caller import Caller
from service.projects.seen import Seen
from service.services import Use

router = APIRouter(
    prefix="/v1/gpus",
    tags=["workers"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)

User = Annotated[Caller, Depends(require_user)]


@router.get("")
def get_gpus(
    services: Use,
    project: Seen,
    worker: Annotated[str | None, Query(max_length=100, description="Id of a worker.")] = None,
    arch: Annotated[
        str | None, Query(max_length=100, description="LLVM target, such as `gfx1100`.")
    ] = None,
) -> Page[WorkerGpu]:
    """List the GPUs of the live workers, with their current telemetry and job.

    `telemetry` is null if the worker has not reported any recently. `excluded` says why a GPU is
    not used for training. `job_id` is null for a job of another project.
    """

    def read(session: Session) -> list[WorkerGpu]:
        listed = list_gpus(session, services.settings, worker_id=worker, arch=arch)
        return hide_jobs(session, listed, project=project)

    gpus = services.database.read(read)
    return Page[WorkerGpu](
        data=gpus,
        first_id=gpus[0].id if gpus else None,
        last_id=gpus[-1].id if gpus else None,
    )


_OTHERS = {"description": "A job of another project uses the GPU."}
_FREED: dict[int | str, dict[str, Any]] = {
    403: _OTHERS,
    200: {"description": "The GPU is free."},
    202: {"description": "Accepted; `hold.expected_seconds` says how long it takes."},
}


@router.post("/{worker_id}/{key}/free", status_code=202, responses=_FREED)
def free(worker_id: str, key: str, services: Use, caller: User, response: Response) -> WorkerGpu:
    """Pause the job of a GPU, and keep the GPU free until it is given back.

    The job saves a checkpoint first. Repeat the request, or read the GPU, to see when it is free.
    """
    gpu = services.database.write(
        lambda session: free_gpu(
            session, services.settings, caller=caller, worker_id=worker_id, key=key
        )
    )
    is_free = gpu.hold is not None and gpu.hold.status == "free"
    response.status_code = 200 if is_free else 202
    return gpu


@router.delete(
    "/{worker_id}/{key}/free",
    responses={403: _OTHERS, 409: {"description": "Its job is still saving its checkpoint."}},
)
def take_back(worker_id: str, key: str, services: Use, caller: User) -> WorkerGpu:
    """Give a GPU back to the jobs, and resume the job that was paused for it."""
    return services.database.write(
        lambda session: give_back(
            session, services.settings, caller=caller, worker_id=worker_id, key=key
        )
    )
