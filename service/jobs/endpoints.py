"""Jobs over HTTP."""

from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool

from redkiln.views.job import EventView, JobSummary, JobView
from redkiln.views.page import Page
from service.artifacts.content import choose_part, make_etag
from service.attempts.previews import find_preview, preview_path
from service.bundles.model_files import check_trained_file
from service.bundles.own_code import check_own_code
from service.errors import NotFound, UnsupportedMedia
from service.http.access import may_run_scripts, require_user
from service.http.bodies import JsonRoute
from service.http.parameters import refuse_unknown_parameters
from service.http.streams import while_allowed
from service.jobs import rules
from service.jobs.forecast.dry_run import render_dry_run
from service.jobs.history import list_events, stream_events
from service.jobs.initial import export_of
from service.jobs.lists.filters import JobId, Selected
from service.jobs.lists.listing import SORTS, list_summaries, parse_order
from service.jobs.logs import find_log, follow_log, read_log, start_offset
from service.jobs.long_polling import MOST_WAIT_SECONDS, wait_for_end
from service.jobs.removal import remove
from service.jobs.submit import Submitted, submit
from service.keys.caller import Caller
from service.services import Use
from service.storage import require_free

log = structlog.get_logger()

router = APIRouter(
    route_class=JsonRoute,
    prefix="/v1/jobs",
    tags=["jobs"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)

IdempotencyKeyHeader = Annotated[
    str | None, Header(alias="Idempotency-Key", min_length=1, max_length=255)
]
_INT64 = 2**63 - 1
_INT32 = 2**31 - 1
"""Numbers of events are in a column of 32 bits."""
_PREVIEW: dict[int | str, dict[str, Any]] = {
    200: {"description": "An image or a table.", "content": {"image/png": {}}},
    304: {"description": "The client already has the newest preview."},
    412: {"description": "`If-Match` does not match the preview."},
}


@router.post(
    "",
    status_code=202,
    response_model=JobView,
    responses={
        200: {"description": "Dry run: the spec with its defaults, warnings and estimates."}
    },
)
def submit_job(
    body: Annotated[Any, Body(description="A job spec; GET /v1/tasks/{task}/schema describes it.")],
    caller: Annotated[Caller, Depends(require_user)],
    services: Use,
    idempotency_key: IdempotencyKeyHeader = None,
    dry_run: bool = False,
) -> Response:
    """Submit a job. With `dry_run`, only check the spec and fill in its defaults."""
    if isinstance(body, bytes):
        raise UnsupportedMedia("the body is not JSON; send the spec as application/json")
    settings, database = services.settings, services.database
    if may_run_scripts(caller, settings):
        check_own_code(services, body)
    check_trained_file(services, caller, body)
    if dry_run:
        answer = database.read(
            lambda session: render_dry_run(session, settings, body, caller=caller)
        )
        return Response(answer, 200, media_type="application/json")
    require_free(settings.state_dir, settings.min_free_bytes)
    submitted = database.write(
        lambda session: submit(
            session, settings, body, caller=caller, idempotency_key=idempotency_key
        )
    )
    return _answer_submission(submitted)


@router.post("/{job_id}/export", status_code=202, response_model=JobView)
def export_job(
    job_id: str,
    caller: Annotated[Caller, Depends(require_user)],
    services: Use,
    body: Annotated[
        dict[str, Any] | None,
        Body(
            description="Fields of `export` that differ from the job's, such as "
            '`{"variants": ["int8-static"]}`; GET /v1/tasks/export/schema describes them.'
        ),
    ] = None,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Response:
    """Export the model of a job that has succeeded again, as a separate job, without training."""
    settings = services.settings
    require_free(settings.state_dir, settings.min_free_bytes)

    def queue(session: Session) -> Submitted:
        spec = export_of(rules.get_job(session, job_id), body or {})
        return submit(session, settings, spec, caller=caller, idempotency_key=idempotency_key)

    return _answer_submission(services.database.write(queue))


def _answer_submission(submitted: Submitted) -> Response:
    log.info("job_submitted", job_id=submitted.job_id, is_replayed=submitted.is_replayed)
    headers = {"Location": f"/v1/jobs/{submitted.job_id}"}
    if submitted.is_replayed:
        headers["Idempotent-Replayed"] = "true"
    return Response(submitted.response, 202, headers, media_type="application/json")


@router.get("", response_model=Page[JobSummary])
def list_jobs(
    services: Use,
    filters: Selected,
    sort: Annotated[
        str,
        Query(
            min_length=1,
            max_length=200,
            description=f"{', '.join(SORTS)} or a metric such as `test/accuracy`; `-` in front "
            "sorts descending.",
        ),
    ] = "-created",
    after: Annotated[JobId | None, Query(description="Continue after this job.")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """List jobs, newest first. `metadata.<key>=<value>` selects jobs with this entry.

    Sorted by `ended` or by a metric, only jobs that have one are listed; sorted by `queue`, only
    queued jobs, in the order in which they start.
    """
    jobs = list_summaries(
        services.database,
        filters,
        order=parse_order(sort),
        after=after,
        limit=limit + 1,
    )
    shown = jobs[:limit]
    page = Page[JobSummary](
        data=shown,
        has_more=len(jobs) > limit,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
    )
    return Response(page.model_dump_json(), media_type="application/json")


@router.get("/{job_id}", response_model=JobView)
async def get_job(
    job_id: str,
    services: Use,
    wait: Annotated[
        float | None,
        Query(ge=0, le=MOST_WAIT_SECONDS, description="Seconds to wait until the job has ended."),
    ] = None,
) -> Response:
    """Get a job. With `wait`, the answer comes when the job has ended or the time is over."""
    if wait:
        await wait_for_end(services, job_id, seconds=wait)
    view = await run_in_threadpool(services.views.get, job_id)
    return Response(view, media_type="application/json")


@router.delete("/{job_id}", status_code=204, response_class=Response)
def remove_job(job_id: str, services: Use) -> Response:
    """Delete a finished job with its artifacts, events, metrics and logs."""
    remove(services, job_id)
    return Response(status_code=204)


@router.get(
    "/{job_id}/events",
    response_model=Page[EventView],
    responses={200: {"content": {"text/event-stream": {}}}},
)
def get_events(
    job_id: str,
    request: Request,
    services: Use,
    accept: Annotated[str, Header()] = "",
    last_event_id: Annotated[int | None, Header(ge=0, le=_INT32)] = None,
    after_seq: Annotated[int, Query(ge=0, le=_INT32)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """List the events of a job after `after_seq`.

    With `Accept: text/event-stream`, stream them as they happen. A stream can be resumed with
    `Last-Event-ID` and ends with `event: end`, or when its key is revoked or its session is over.
    """
    database = services.database
    if "text/event-stream" not in accept:
        events, has_more = database.read(
            lambda session: list_events(session, job_id, after_seq=after_seq, limit=limit)
        )
        page = Page[EventView](
            data=events,
            has_more=has_more,
            first_id=str(events[0].seq) if events else None,
            last_id=str(events[-1].seq) if events else None,
        )
        return Response(page.model_dump_json(), media_type="application/json")
    database.read(lambda session: rules.get_job(session, job_id))
    stream = stream_events(
        database,
        services.changes,
        job_id,
        after_seq=after_seq if last_event_id is None else last_event_id,
        heartbeat_seconds=services.settings.heartbeat_seconds,
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    content = while_allowed(stream, request, services)
    return StreamingResponse(content, headers=headers, media_type="text/event-stream")


@router.get(
    "/{job_id}/logs",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
)
def get_logs(
    job_id: str,
    request: Request,
    services: Use,
    offset: Annotated[
        int | None, Query(ge=0, le=_INT64, description="Offset of the first byte.")
    ] = None,
    tail: Annotated[
        int | None, Query(ge=0, le=100_000, description="Number of last lines.")
    ] = None,
    attempt: Annotated[
        str | None, Query(pattern=r"^(\d{1,9}|att_[0-9a-z]{22})$", description="Number or id.")
    ] = None,
    follow: bool = False,
) -> Response:
    """Get the log of a job's newest attempt, or of a chosen attempt, as text.

    `Redkiln-Log-Size` is the offset at which to continue. With `follow`, the response continues
    as the log is written, including the log of later attempts, until the job has ended.
    """
    database, logs_dir = services.database, services.settings.logs_dir
    log = database.read(lambda session: find_log(session, job_id, attempt=attempt))
    start = start_offset(logs_dir, log, offset=offset, tail=tail)
    headers = {"Redkiln-Log-Size": str(log.size), "Cache-Control": "no-store"}
    if log.attempt_id is not None:
        headers["Redkiln-Attempt"] = log.attempt_id
    if follow:
        stream = follow_log(
            database, services.changes, logs_dir, job_id, attempt=attempt, start=start, log=log
        )
        content: Any = while_allowed(stream, request, services)
    else:
        content = read_log(logs_dir, log, start=start)
    return StreamingResponse(content, headers=headers, media_type="text/plain; charset=utf-8")


@router.get("/{job_id}/preview", response_class=Response, responses=_PREVIEW)
@router.head("/{job_id}/preview", response_class=Response, responses=_PREVIEW)
def get_preview(
    job_id: str,
    request: Request,
    services: Use,
    step: Annotated[
        int | None, Query(ge=0, lt=2**53, description="One of `/previews`; else the newest.")
    ] = None,
) -> Response:
    """Get a job's sample predictions: a PNG for images, a Markdown table otherwise.

    `Redkiln-Step` is the step at which they were made. With `If-None-Match`, the content is sent
    only if there is a newer preview.
    """
    services.database.read(lambda session: rules.get_job(session, job_id))
    preview = find_preview(preview_path(services.settings.previews_dir, job_id))
    if step is not None and (preview is None or preview.facts.step != step):
        preview = find_preview(preview_path(services.settings.previews_dir, job_id, step=step))
    if preview is None:
        when = (
            "yet" if step is None else f"of step {step}; GET /v1/jobs/{job_id}/previews lists them"
        )
        raise NotFound(f"the job has no sample predictions {when}", code="no_preview")
    facts = preview.facts
    part = choose_part(
        request.headers,
        method="HEAD",
        etag=make_etag(facts.sha256),
        size_bytes=len(preview.content),
    )
    headers = {
        "ETag": make_etag(facts.sha256),
        "Cache-Control": "private, no-cache",
        "Redkiln-Step": str(facts.step),
        "Redkiln-Attempt": facts.attempt_id,
        "Redkiln-Made-At": facts.made_at,
        "X-Content-Type-Options": "nosniff",
    }
    content = preview.content if part.status == 200 else b""
    return Response(content, part.status, headers, facts.media_type)
