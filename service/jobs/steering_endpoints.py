"""Steering a job over HTTP: cancel, pause, resume, finish, retry, place, checkpoints."""

from collections.abc import Callable
from typing import Annotated, Any, Self

from fastapi import APIRouter, Body, Depends, Response
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError
from sqlmodel import Session

from redkiln.spec.job_spec import Engine
from redkiln.spec.strict import StrictModel
from redkiln.status import JobStatus
from redkiln.views.job import CheckpointView, JobView
from redkiln.views.page import Page
from service.database import read_now
from service.http.access import require_user
from service.http.bodies import JsonRoute
from service.http.parameters import refuse_unknown_parameters
from service.jobs import steering
from service.jobs.checks import check_may_run
from service.jobs.engines import check_engine
from service.jobs.models import Job
from service.jobs.steering import RetryFrom
from service.jobs.views import render_job
from service.keys.caller import Caller
from service.projects.owners import check_owner
from service.services import Services, Use

router = APIRouter(
    route_class=JsonRoute,
    prefix="/v1/jobs/{job_id}",
    tags=["jobs"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)

STOPPED: dict[int | str, dict[str, Any]] = {
    200: {"description": "Done."},
    202: {"description": "Accepted; the worker has not stopped yet."},
    409: {"description": "The job has already finished."},
}


MAY_NOT_RUN: dict[str, Any] = {
    "description": "The job runs code of its user, and the key may not run scripts."
}
User = Annotated[Caller, Depends(require_user)]


class RetryRequest(StrictModel):
    """Where a retry starts."""

    start: Annotated[RetryFrom, Field(alias="from")] = Field(
        "newest",
        alias="from",
        description="`newest` or `best` checkpoint, the number of a checkpoint's step, or `start` "
        "to begin from step 0.",
    )


class ResumeRequest(StrictModel):
    """What changes when a job continues."""

    engine: Engine | None = Field(
        None, description="Engine to continue with; by default the one in the spec."
    )


class MoveRequest(StrictModel):
    """The queued job that another one is moved next to: one of the two fields."""

    before: str | None = Field(None, max_length=64, description="Id of the job to be ahead of.")
    after: str | None = Field(None, max_length=64, description="Id of the job to be behind.")

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.before is None) == (self.after is None):
            message = "set either `before` or `after` to the id of a queued job"
            raise PydanticCustomError("one_of", message)
        return self


class PriorityRequest(StrictModel):
    """A job's new place in the queue."""

    priority: int = Field(
        ge=-100,
        le=100,
        description="Higher runs first; at equal priority the older job, unless it was moved.",
    )


@router.post("/cancel", response_model=JobView, status_code=202, responses=STOPPED)
def cancel_job(job_id: str, services: Use) -> Response:
    """Cancel a job. 200 if it is cancelled, 202 while its worker is stopping."""
    return _steer(services, lambda session: steering.cancel(session, job_id, now=read_now(session)))


@router.post("/pause", response_model=JobView, status_code=202, responses=STOPPED)
def pause_job(job_id: str, services: Use) -> Response:
    """Pause a job. Once it is `paused`, its GPU is free; resuming continues from the same step.

    200 if it is paused, 202 while its worker is saving the checkpoint.
    """
    return _steer(services, lambda session: steering.pause(session, job_id, now=read_now(session)))


@router.post(
    "/resume",
    response_model=JobView,
    responses={403: MAY_NOT_RUN, 409: {"description": "The job is not paused."}},
)
def resume_job(
    job_id: str,
    services: Use,
    caller: User,
    request: Annotated[ResumeRequest | None, Body()] = None,
) -> Response:
    """Put a paused job back into the queue. It continues exactly where it stopped."""
    engine = None if request is None else request.engine
    if engine is not None:
        check_engine(services, caller, job_id, engine=engine)

    def act(session: Session) -> Job:
        check_may_run(session, services.settings, job_id, caller=caller)
        return steering.resume(session, job_id, now=read_now(session), engine=engine)

    return _steer(services, act)


@router.post(
    "/finish",
    response_model=JobView,
    status_code=202,
    responses={
        200: {"description": "The job waits for a worker that exports it."},
        202: {"description": "Accepted; the worker has not stopped yet."},
        403: MAY_NOT_RUN,
        409: {"description": "The job has succeeded, or there is nothing to export yet."},
    },
)
def finish_job(job_id: str, services: Use, caller: User) -> Response:
    """Stop training now and export the best checkpoint so far.

    Also exports the best checkpoint of a job that was paused or cancelled, or has failed.
    """

    def act(session: Session) -> Job:
        check_may_run(session, services.settings, job_id, caller=caller)
        return steering.finish(session, job_id, now=read_now(session))

    return _steer(services, act)


@router.post(
    "/priority", response_model=JobView, responses={409: {"description": "The job has ended."}}
)
def set_priority(job_id: str, services: Use, request: PriorityRequest) -> Response:
    """Change the priority of a job that has not ended."""
    return _steer(
        services,
        lambda session: steering.set_priority(
            session, job_id, priority=request.priority, now=read_now(session)
        ),
        waits_for_worker=False,
    )


@router.patch("", response_model=JobView, responses={409: {"description": "The job has ended."}})
def change_job(job_id: str, services: Use, request: PriorityRequest) -> Response:
    """Change the priority of a job that has not ended, like `POST .../priority`."""
    return set_priority(job_id, services, request)


@router.post(
    "/move",
    response_model=JobView,
    responses={409: {"description": "One of the jobs is not queued."}},
)
def move_job(job_id: str, services: Use, caller: User, request: MoveRequest) -> Response:
    """Move a queued job directly before or after another queued job.

    If the other job has another priority, the moved job gets it.
    """
    other_id = request.before or request.after or ""
    check_owner(services.database, caller, {"job_id": other_id})
    return _steer(
        services,
        lambda session: steering.move_beside(
            session,
            job_id,
            other_id=other_id,
            is_before=request.before is not None,
            now=read_now(session),
        ),
        waits_for_worker=False,
    )


@router.post(
    "/retry",
    response_model=JobView,
    responses={
        403: MAY_NOT_RUN,
        409: {"description": "The job has not ended, or has succeeded."},
    },
)
def retry_job(
    job_id: str,
    services: Use,
    caller: User,
    request: Annotated[RetryRequest | None, Body()] = None,
) -> Response:
    """Run a failed or cancelled job again, from one of its checkpoints or from the start."""
    start = (request or RetryRequest()).start

    def act(session: Session) -> Job:
        check_may_run(session, services.settings, job_id, caller=caller)
        return steering.retry(session, job_id, start=start, now=read_now(session))

    return _steer(services, act)


@router.get("/checkpoints")
def get_checkpoints(job_id: str, services: Use) -> Page[CheckpointView]:
    """List the checkpoints a job can continue from, newest first. A succeeded job keeps none."""
    views = services.database.read(lambda session: steering.list_checkpoints(session, job_id))
    return Page[CheckpointView](
        data=list(views),
        first_id=str(views[0].step) if views else None,
        last_id=str(views[-1].step) if views else None,
    )


def _steer(
    services: Services, change: Callable[[Session], Job], *, waits_for_worker: bool = True
) -> Response:
    def run(session: Session) -> tuple[str, str]:
        job = change(session)
        session.flush()
        return job.status, render_job(session, job)

    status, view = services.database.write(run)
    is_pending = waits_for_worker and status in (JobStatus.CANCELLING, JobStatus.PAUSING)
    return Response(view, 202 if is_pending else 200, media_type="application/json")
