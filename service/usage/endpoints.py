"""The use of storage over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from redkiln.views.storage import RetentionPlan, StorageUse
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.overview.snapshot import read_disk
from service.projects.seen import Seen
from service.services import Use
from service.usage.retention import plan_retention
from service.usage.rules import measure_use

router = APIRouter(
    prefix="/v1/storage",
    tags=["storage"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)

Days = Annotated[
    float | None, Query(ge=0, le=36_500, description="Days to try instead of the setting's.")
]


@router.get("")
def get_storage(services: Use, project: Seen) -> StorageUse:
    """Get the stored bytes by kind, what of it can be deleted, and the largest jobs and sets.

    Of a project, only what it owns is counted; uploaded code and the database have no owner.
    Bytes that are used twice are stored once, so that deleting one use may free nothing.
    """
    disk = read_disk(services)
    return services.database.read(
        lambda session: measure_use(session, services.settings, disk=disk, project=project)
    )


@router.get("/retention")
def get_retention(
    services: Use, project: Seen, keep_jobs_days: Days = None, keep_files_days: Days = None
) -> RetentionPlan:
    """Get what the rules of retention would delete now. Nothing is deleted.

    Housekeeping applies the rules every hour. The parameters preview other values of the settings.
    """
    tried = {"keep_jobs_days": keep_jobs_days, "keep_files_days": keep_files_days}
    given = {name: days for name, days in tried.items() if days is not None}
    settings = services.settings.model_copy(update=given)
    return services.database.read(
        lambda session: plan_retention(session, settings, project=project)
    )
