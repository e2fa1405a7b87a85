"""The overview over HTTP: once, or as a stream."""

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from redkiln.views.overview import Overview
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.http.streams import while_allowed
from service.overview.hub import OverviewHub
from service.overview.hubs import OverviewHubs
from service.projects.seen import Seen
from service.services import Use

router = APIRouter(
    prefix="/v1/overview",
    tags=["overview"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)
_INT64 = 2**63 - 1
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `overview`: an Overview with only the sections that have changed.",
        "content": {"text/event-stream": {}},
    }
}


async def get_hub(request: Request, project: Seen) -> OverviewHub:
    """Return the hub of what the caller sees."""
    return cast("OverviewHubs", request.app.state.overview).of(project)


Hub = Annotated[OverviewHub, Depends(get_hub)]


@router.get("", response_model=Overview)
async def get_overview(hub: Hub) -> Response:
    """Get what runs, waits and has ended, the GPUs, the disk, and what is wrong."""
    return Response(await hub.current(), media_type="application/json")


@router.get("/events", response_class=Response, responses=_STREAM)
async def stream_overview(
    request: Request,
    services: Use,
    hub: Hub,
    last_event_id: Annotated[int | None, Header(ge=0, le=_INT64)] = None,
    after_seq: Annotated[int, Query(ge=-1, le=_INT64)] = -1,
) -> Response:
    """Stream the overview: all of it at first, then the sections that change.

    Each event is `overview`, with `id` as its number. Put its sections over those that you have.
    After a break, send the last number as `Last-Event-ID` to get only what has changed since. The
    stream ends when its key is revoked or its session is over.
    """
    stream = hub.stream(
        after_seq=after_seq if last_event_id is None else last_event_id,
        heartbeat_seconds=services.settings.heartbeat_seconds,
    )
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    content = while_allowed(stream, request, services)
    return StreamingResponse(content, headers=headers, media_type="text/event-stream")
