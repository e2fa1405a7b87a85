"""The audit log over HTTP."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime

from redkiln.views.access.audit import AuditView
from redkiln.views.page import Page
from service.audit.rules import Wanted, list_entries
from service.http.access import require_admin
from service.http.parameters import refuse_unknown_parameters
from service.services import Use

router = APIRouter(
    prefix="/v1/audit",
    tags=["keys"],
    dependencies=[Depends(require_admin), Depends(refuse_unknown_parameters)],
)
Text = Annotated[str | None, Query(max_length=300)]


def read_wanted(
    key: Annotated[str | None, Query(max_length=100, description="Id or name of a key.")] = None,
    project: Text = None,
    action: Annotated[
        str | None, Query(max_length=100, description="Text in the action, such as `DELETE`.")
    ] = None,
    of: Annotated[
        str | None,
        Query(alias="object", max_length=300, description="Id or name of what was changed."),
    ] = None,
    outcome: Text = None,
    since: Annotated[
        AwareDatetime | None, Query(description="Time of the oldest entry, with its time zone.")
    ] = None,
) -> Wanted:
    """Return which entries a request wants."""
    oldest: datetime | None = since
    return Wanted(key=key, project=project, action=action, object=of, outcome=outcome, since=oldest)


@router.get("")
def list_all(
    services: Use,
    wanted: Annotated[Wanted, Depends(read_wanted)],
    after: Annotated[
        str | None, Query(max_length=64, description="Continue after this entry.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Page[AuditView]:
    """List who changed what, newest first, with the changes that were refused.

    Entries are kept for `REDKILN_AUDIT_DAYS`. They never have a key's secret or a spec.
    """
    found = services.database.read(
        lambda session: list_entries(session, wanted, after=after, limit=limit + 1)
    )
    shown = list(found[:limit])
    return Page[AuditView](
        data=shown,
        has_more=len(found) > limit,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
    )
