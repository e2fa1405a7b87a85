"""The doctor over HTTP."""

from fastapi import APIRouter, Depends

from redkiln.doctor import Diagnosis
from service.access import require_user
from service.doctor.rules import diagnose
from service.parameters import refuse_unknown_parameters
from service.services import Use

router = APIRouter(
    prefix="/v1/doctor",
    tags=["workers"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)


@router.get("")
def get_diagnosis(services: Use) -> Diagnosis:
    """What keeps jobs from running, what slows them, and what to type.

    The service's own checks, and the newest report of each live worker, which looks by itself
    after its start, every ten minutes, and when a trainer has died. 200 whatever is found: read
    `verdict`.
    """
    return services.database.read(
        lambda session: diagnose(session, services.settings, broker=services.doorbell.state)
    )
