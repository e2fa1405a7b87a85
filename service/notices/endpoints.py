"""The log of messages, and a test of the targets, over HTTP."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from redkiln.views.notice import NoticeTest, NoticeView
from redkiln.views.page import Page
from service.http.access import require_admin
from service.http.parameters import refuse_unknown_parameters
from service.ids import new_id
from service.notices.messages import TEST, News
from service.notices.rules import list_notices
from service.services import Use

router = APIRouter(
    prefix="/v1/notices",
    tags=["notices"],
    dependencies=[Depends(require_admin), Depends(refuse_unknown_parameters)],
)


@router.get("")
def list_all(
    services: Use,
    after: Annotated[
        str | None, Query(max_length=64, description="Continue after this message.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Page[NoticeView]:
    """List messages about ended jobs and their delivery, newest first."""
    found = services.database.read(
        lambda session: list_notices(session, after=after, limit=limit + 1)
    )
    shown = found[:limit]
    return Page[NoticeView](
        data=shown,
        has_more=len(found) > limit,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
    )


@router.post("/test")
def send_test(services: Use) -> list[NoticeTest]:
    """Send a test message to every target of `REDKILN_NOTICE_URLS`, and return the results."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    news = News(id=new_id("note"), job_id="job_test", job_name="example", event=TEST, at=now)
    sender = services.notices
    results = {label: sender.try_to_send(news, target) for label, target in sender.targets.items()}
    return [
        NoticeTest(target=label, is_sent=error is None, error=error)
        for label, error in results.items()
    ]
