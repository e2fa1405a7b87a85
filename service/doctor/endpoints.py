"""The doctor over HTTP."""

from fastapi import APIRouter, Depends

from redkiln.views.doctor import Diagnosis
from service.doctor.rules import diagnose
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.services import Use

router = APIRouter(
    prefix="/v1/doctor",
    tags=["workers"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)


@router.get("")
def get_diagnosis(services: Use) -> Diagnosis:
    """Get what stops jobs from running, what slows them down, and the commands that fix it.

    Contains the service's own checks and the newest report of each live worker. A worker checks
    itself after it starts, every ten minutes, and when a trainer has died. The status is 200
    whatever was found: read `verdict`.
    """
    return services.database.read(
        lambda session: diagnose(session, services.settings, broker=services.doorbell.state)
    )
