"""The attempt protocol over HTTP (`redkiln.protocol`); every call needs the attempt's token."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response
from sqlmodel import Session, select
from starlette.concurrency import run_in_threadpool

from redkiln.protocol import (
    ArtifactCommit,
    CheckpointCommit,
    CheckpointReceipt,
    FinishRequest,
    FinishResponse,
    ReportRequest,
    ReportResponse,
)
from service.artifacts.content import CONTENT, content_response
from service.artifacts.rules import publish
from service.attempts.checkpoints import commit_checkpoint
from service.attempts.fencing import hold_fence, require_fence
from service.attempts.finish import finish
from service.attempts.models import Checkpoint
from service.attempts.previews import MAX_BYTES, preview_path, save_preview
from service.attempts.report import take_report
from service.attempts.tokens import check_token
from service.blobs.rules import hold, is_own
from service.datasets.content import dataset_content_response, index_response
from service.datasets.models import Dataset
from service.errors import NotFound
from service.http.access import bearer_token
from service.http.bodies import JsonRoute
from service.jobs.initial import find_initial, find_manifest
from service.jobs.rules import get_job
from service.services import Services, Use, get_services

log = structlog.get_logger()

router = APIRouter(prefix="/v1/attempts/{attempt_id}", tags=["attempts"], route_class=JsonRoute)

AttemptId = Annotated[str, Path(pattern=r"^att_[0-9a-z]{22}$")]
Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


async def attempt_fence(
    attempt_id: AttemptId, request: Request, services: Annotated[Services, Depends(get_services)]
) -> int:
    """Return the fence of the request's token."""
    structlog.contextvars.bind_contextvars(attempt_id=attempt_id)
    return check_token(services.secret, attempt_id, bearer_token(request))


Fence = Annotated[int, Depends(attempt_fence)]


@router.post("/report")
def report(
    attempt_id: AttemptId, fence: Fence, request: Annotated[ReportRequest, Body()], services: Use
) -> ReportResponse:
    """Report events, metrics and log, and renew the lease. The response contains a command."""
    return services.database.write(
        lambda session: take_report(
            session, services.settings, attempt_id=attempt_id, fence=fence, report=request
        )
    )


@router.post("/checkpoints")
def checkpoints(
    attempt_id: AttemptId, fence: Fence, request: Annotated[CheckpointCommit, Body()], services: Use
) -> CheckpointReceipt:
    """Commit an uploaded checkpoint. The job can resume from it from now on."""
    return services.database.write(
        lambda session: commit_checkpoint(
            session,
            services.settings,
            services.storage,
            attempt_id=attempt_id,
            fence=fence,
            commit=request,
        )
    )


@router.post("/artifacts", status_code=204, response_class=Response)
def publish_artifact(
    attempt_id: AttemptId, fence: Fence, request: Annotated[ArtifactCommit, Body()], services: Use
) -> Response:
    """Publish an uploaded file while the attempt runs. It replaces a file of the same name."""
    lease_seconds = services.settings.lease_seconds

    def write(session: Session) -> None:
        attempt = hold_fence(session, attempt_id, fence=fence, lease_seconds=lease_seconds)
        publish(session, services.storage, attempt.job_id, attempt_id, [request])

    services.database.write(write)
    return Response(status_code=204)


@router.post("/finish")
def finish_attempt(
    attempt_id: AttemptId, fence: Fence, request: Annotated[FinishRequest, Body()], services: Use
) -> FinishResponse:
    """End the attempt: publish its artifacts and change its job's status."""
    answer = services.database.write(
        lambda session: finish(
            session,
            services.settings,
            services.storage,
            attempt_id=attempt_id,
            fence=fence,
            request=request,
        )
    )
    log.info("attempt_finished", outcome=request.outcome, job_status=answer.job_status)
    return answer


@router.head("/blobs/{sha256}", responses={404: {"description": "The job has not sent them."}})
def find_blob(attempt_id: AttemptId, sha256: Sha256, fence: Fence, services: Use) -> Response:
    """Check whether the job has sent bytes. If so, they are kept while the attempt runs."""
    is_own = services.database.write(
        lambda session: _hold_own(session, services, attempt_id, fence, sha256)
    )
    stored = services.storage.stat(sha256) if is_own else None
    if stored is None:
        raise NotFound("the job has not sent these bytes; upload them")
    return Response(headers={"Content-Length": str(stored.size_bytes)})


@router.put("/blobs/{sha256}", status_code=201, response_class=Response)
async def put_blob(
    attempt_id: AttemptId, sha256: Sha256, fence: Fence, request: Request, services: Use
) -> Response:
    """Store bytes under their digest. 422 if they have a different digest."""
    await run_in_threadpool(
        services.database.write,
        lambda session: _hold(session, services, attempt_id, fence, sha256),
    )
    limit = services.settings.max_upload_bytes
    await services.storage.put_stream(request.stream(), sha256=sha256, limit=limit)
    await run_in_threadpool(
        services.database.write,
        lambda session: _hold(session, services, attempt_id, fence, sha256, is_sent=True),
    )
    return Response(status_code=201)


@router.get("/blobs/{sha256}", response_class=Response, responses=CONTENT)
def get_blob(
    attempt_id: AttemptId, sha256: Sha256, fence: Fence, request: Request, services: Use
) -> Response:
    """Download a committed checkpoint of the job, or a file of the job that it starts from."""

    def is_checkpoint(session: Session) -> bool:
        attempt = require_fence(session, attempt_id, fence=fence)
        spec = get_job(session, attempt.job_id).spec
        used = (find_initial(session, spec), find_manifest(session, spec))
        if sha256 in {artifact.sha256 for artifact in used if artifact is not None}:
            return True
        statement = select(Checkpoint.id).where(
            Checkpoint.job_id == attempt.job_id, Checkpoint.sha256 == sha256
        )
        return session.exec(statement).first() is not None

    if not services.database.read(is_checkpoint):
        raise NotFound("the job has no such checkpoint")
    return content_response(
        services.storage,
        sha256,
        request=request,
        filename=f"{sha256}.safetensors",
        media_type="application/octet-stream",
    )


@router.put("/preview", status_code=204, response_class=Response)
async def put_preview(
    attempt_id: AttemptId,
    fence: Fence,
    request: Request,
    services: Use,
    step: Annotated[int, Query(ge=0, lt=2**53)],
    media_type: Annotated[str, Query(max_length=100)],
) -> Response:
    """Replace the job's sample predictions with a small PNG or Markdown table."""
    job_id = await run_in_threadpool(
        services.database.read,
        lambda session: require_fence(session, attempt_id, fence=fence).job_id,
    )
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BYTES:
            break  # refused below
    await run_in_threadpool(
        save_preview,
        preview_path(services.settings.previews_dir, job_id),
        content,
        attempt_id=attempt_id,
        step=step,
        media_type=media_type,
    )
    return Response(status_code=204)


@router.get("/bundle", response_class=Response, responses=CONTENT)
def get_bundle(attempt_id: AttemptId, fence: Fence, request: Request, services: Use) -> Response:
    """Download the code of the job's script as a tar."""

    def find(session: Session) -> str:
        attempt = require_fence(session, attempt_id, fence=fence)
        sha256 = get_job(session, attempt.job_id).bundle_sha256
        if sha256 is None:
            raise NotFound(f"job {attempt.job_id} has no code bundle")
        return sha256

    sha256 = services.database.read(find)
    return content_response(
        services.storage,
        sha256,
        request=request,
        filename=f"{sha256}.tar",
        media_type="application/x-tar",
    )


@router.get("/dataset", response_class=Response, responses=CONTENT)
def get_dataset(attempt_id: AttemptId, fence: Fence, request: Request, services: Use) -> Response:
    """Download the job's data set: its archive, or a tar of its folder."""
    dataset = services.database.read(lambda s: _dataset(s, attempt_id, fence))
    return dataset_content_response(services, dataset, request=request)


@router.get("/dataset/index", response_class=Response, responses=CONTENT)
def get_dataset_index(
    attempt_id: AttemptId, fence: Fence, request: Request, services: Use
) -> Response:
    """Download the index of the job's data set."""
    dataset = services.database.read(lambda s: _dataset(s, attempt_id, fence))
    return index_response(services, dataset, request=request)


def _hold(
    session: Session,
    services: Services,
    attempt_id: str,
    fence: int,
    sha256: str,
    *,
    is_sent: bool = False,
) -> None:
    lease_seconds = services.settings.lease_seconds
    hold_fence(session, attempt_id, fence=fence, lease_seconds=lease_seconds)
    hold(session, sha256, holder=attempt_id, is_sent=is_sent)


def _hold_own(
    session: Session, services: Services, attempt_id: str, fence: int, sha256: str
) -> bool:
    lease_seconds = services.settings.lease_seconds
    attempt = hold_fence(session, attempt_id, fence=fence, lease_seconds=lease_seconds)
    if not is_own(session, sha256, attempt_id=attempt_id, job_id=attempt.job_id):
        return False
    hold(session, sha256, holder=attempt_id)
    return True


def _dataset(session: Session, attempt_id: str, fence: int) -> Dataset:
    attempt = require_fence(session, attempt_id, fence=fence)
    job = get_job(session, attempt.job_id)
    if job.dataset_id is None:
        raise NotFound(f"job {job.id} does not use a data set")
    return session.get_one(Dataset, job.dataset_id)
