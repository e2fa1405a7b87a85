"""Whether the service is alive, and whether it is ready to run jobs."""

import sqlalchemy as sa
from fastapi import APIRouter
from fastapi.responses import JSONResponse

from redkiln.version import __version__
from service.errors import ServiceError
from service.services import Services, Use
from service.workers.rules import live_machines

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Check that the process is alive; the response has its version."""
    return {"status": "ok", "version": __version__}


@router.get(
    "/readyz", responses={503: {"description": "The service is not ready; `checks` shows why."}}
)
def readyz(services: Use) -> JSONResponse:
    """Check that the database works and a worker is live. A missing broker is not an error."""
    database = _check_database(services)
    num_workers = 0
    if database == "ok":
        machines = services.database.read(lambda s: live_machines(s, services.settings))
        num_workers = len(machines)
    is_ready = database == "ok" and num_workers > 0
    checks = {
        "database": database,
        "live_workers": num_workers,
        "broker": services.doorbell.state,
    }
    status = "ready" if is_ready else "not_ready"
    body = {"status": status, "checks": checks}
    return JSONResponse(body) if is_ready else JSONResponse(body, 503, {"Retry-After": "5"})


def _check_database(services: Services) -> str:
    try:
        services.database.execute_read(sa.select(1))
    except (ServiceError, sa.exc.SQLAlchemyError) as error:
        return f"failed: {type(error).__name__}"
    return "ok"
