"""GPUs over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from redkiln.views.hardware import WorkerGpu
from redkiln.views.page import Page
from service.gpus.rules import list_gpus
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.services import Use

router = APIRouter(
    prefix="/v1/gpus",
    tags=["workers"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)


@router.get("")
def get_gpus(
    services: Use,
    worker: Annotated[str | None, Query(max_length=100, description="Id of a worker.")] = None,
    arch: Annotated[
        str | None, Query(max_length=100, description="LLVM target, such as `gfx1100`.")
    ] = None,
) -> Page[WorkerGpu]:
    """List the GPUs of the live workers, with their current telemetry and job.

    `telemetry` is null if the worker has not reported any recently. `excluded` says why a GPU is
    not used for training.
    """
    gpus = services.database.read(
        lambda session: list_gpus(session, services.settings, worker_id=worker, arch=arch)
    )
    return Page[WorkerGpu](
        data=gpus,
        first_id=gpus[0].id if gpus else None,
        last_id=gpus[-1].id if gpus else None,
    )
