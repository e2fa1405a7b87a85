"""Changes of many jobs over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from redkiln.views.bulk import BulkChange
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.jobs.bulk.rules import MOST_JOBS, cancel_all, delete_all
from service.jobs.lists.filters import JobId, Selected
from service.services import Use

router = APIRouter(
    prefix="/v1/jobs",
    tags=["jobs"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)

After = Annotated[JobId | None, Query(description="Continue after this job.")]
Limit = Annotated[int, Query(ge=1, le=MOST_JOBS, description="Most jobs to look at.")]
DryRun = Annotated[bool, Query(description="Only list what would be changed.")]


@router.post("/cancel")
def cancel_jobs(
    services: Use,
    filters: Selected,
    after: After = None,
    limit: Limit = 200,
    dry_run: DryRun = False,
) -> BulkChange:
    """Cancel all jobs that the filter selects, newest first; at least one filter is required.

    The filters are those of `GET /v1/jobs`, `metadata.<key>=<value>` among them. Without `status`,
    they select only jobs that have not ended. `refused` lists jobs that could not be cancelled.
    """
    return cancel_all(services, filters, after=after, limit=limit, is_dry=dry_run)


@router.delete("")
def delete_jobs(
    services: Use,
    filters: Selected,
    after: After = None,
    limit: Limit = 200,
    dry_run: DryRun = False,
) -> BulkChange:
    """Delete all jobs that the filter selects, newest first; at least one filter is required.

    The filters are those of `GET /v1/jobs`, `metadata.<key>=<value>` among them. Without `status`,
    they select only jobs that have ended. `refused` lists jobs that have not, and jobs that a
    registered version needs.
    """
    return delete_all(services, filters, after=after, limit=limit, is_dry=dry_run)
