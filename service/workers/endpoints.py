"""Workers over HTTP: for people to look at, and for the workers themselves."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Body, Depends, Response
from sqlmodel import Session

from redkiln.protocol import (
    ClaimRequest,
    ClaimResponse,
    HelloRequest,
    HelloResponse,
    StatusRequest,
    StatusResponse,
)
from redkiln.views.benchmark import WorkerBenchmark
from redkiln.views.page import Page
from redkiln.views.self_test import SelfTestReport
from redkiln.views.worker import WorkerView
from service.attempts.claim import claim
from service.doctor.rules import list_self_tests
from service.gpus.held import held_keys
from service.http.access import require_user, require_worker
from service.http.bodies import JsonRoute
from service.http.parameters import refuse_unknown_parameters
from service.keys.caller import Caller
from service.services import Use
from service.workers.benchmark import get_benchmark
from service.workers.rules import get_worker, hello, list_workers
from service.workers.status import take_status

log = structlog.get_logger()

router = APIRouter(prefix="/v1/workers", tags=["workers"], route_class=JsonRoute)


@router.get("", dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)])
def get_workers(services: Use) -> Page[WorkerView]:
    """List all workers that have ever registered, most recently seen first."""
    workers = services.database.read(lambda session: list_workers(session, services.settings))
    return Page[WorkerView](
        data=workers,
        first_id=workers[0].id if workers else None,
        last_id=workers[-1].id if workers else None,
    )


@router.get(
    "/{worker_id}", dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)]
)
def look_worker_up(worker_id: str, services: Use) -> WorkerView:
    """Get a worker: its GPUs, its running attempts and its doctor's verdict."""
    return services.database.read(lambda session: get_worker(session, services.settings, worker_id))


@router.get(
    "/{worker_id}/benchmark",
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
    responses={404: {"description": "There is no such worker, or it has measured no benchmark."}},
)
def show_benchmark(worker_id: str, services: Use) -> WorkerBenchmark:
    """Get a worker's newest benchmark: rates, and its hardware's peaks where they are known."""
    return get_benchmark(services, worker_id)


@router.get(
    "/{worker_id}/self-tests",
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)
def show_self_tests(worker_id: str, services: Use) -> Page[SelfTestReport]:
    """List the newest self-test of each of a worker's GPUs; empty if it has none.

    Each report has the worst result of each area, type and library.
    """
    reports = services.database.read(
        lambda session: list_self_tests(session, services.settings, worker_id)
    )
    return Page[SelfTestReport](data=reports)


@router.post(
    "/hello",
    dependencies=[Depends(require_worker)],
    responses={426: {"description": "Worker and service have different releases."}},
)
def say_hello(request: Annotated[HelloRequest, Body()], services: Use) -> HelloResponse:
    """Register a worker that has started. Attempts of its previous process are lost."""
    services.database.write(lambda session: hello(session, request))
    log.info("worker_hello", worker_id=request.worker_id, hostname=request.hostname)
    return HelloResponse(poll_seconds=services.settings.poll_seconds)


@router.post("/status", dependencies=[Depends(require_worker)])
def report_status(request: Annotated[StatusRequest, Body()], services: Use) -> StatusResponse:
    """Store the current state of a worker's hardware. Only the newest status is kept."""

    def write(session: Session) -> list[str]:
        take_status(session, request)
        return held_keys(session, request.worker_id)

    kept_free = services.database.write(write)
    return StatusResponse(status_seconds=services.settings.status_seconds, kept_free=kept_free)


@router.post(
    "/claim",
    response_model=ClaimResponse,
    responses={204: {"description": "There is no job that the worker can run."}},
)
def claim_job(
    request: Annotated[ClaimRequest, Body()],
    services: Use,
    caller: Annotated[Caller, Depends(require_worker)],
) -> Response:
    """Give a worker the best job for its free slots."""
    claimed = claim(
        services.database, services.settings, request, secret=services.secret, key_id=caller.id
    )
    if claimed is None:
        return Response(status_code=204)
    log.info(
        "attempt_claimed",
        job_id=claimed.job_id,
        attempt_id=claimed.attempt_id,
        worker_id=request.worker_id,
        number=claimed.number,
    )
    return Response(claimed.model_dump_json(), media_type="application/json")
