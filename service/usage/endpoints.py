"""The use of storage over HTTP."""

from fastapi import APIRouter, Depends

from redkiln.views.storage import StorageUse
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.overview.snapshot import read_disk
from service.services import Use
from service.usage.rules import measure_use

router = APIRouter(
    prefix="/v1/storage",
    tags=["storage"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)


@router.get("")
def get_storage(services: Use) -> StorageUse:
    """Get the stored bytes by kind, what of it can be deleted, and the largest jobs and sets.

    Bytes that are used twice are stored once, so that deleting one use may free nothing.
    """
    disk = read_disk(services)
    return services.database.read(
        lambda session: measure_use(session, services.settings, disk=disk)
    )
