"""Code bundles over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool

from redkiln.views.artifact import BundleView
from service.bundles.rules import add_bundle, bundle_view, use_bundle
from service.errors import BadRequest
from service.http.access import require_scripts
from service.http.parameters import refuse_unknown_parameters
from service.services import Use
from service.storage import require_free

router = APIRouter(
    prefix="/v1/bundles",
    tags=["scripts"],
    dependencies=[Depends(require_scripts), Depends(refuse_unknown_parameters)],
)

Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A tar of regular files and folders, without links.",
        "content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/{sha256}")
def look_up(sha256: Sha256, services: Use) -> BundleView:
    """Check whether a bundle is stored. This also extends how long it is kept."""
    return services.database.write(lambda session: bundle_view(use_bundle(session, sha256)))


@router.put(
    "/{sha256}",
    status_code=201,
    openapi_extra=_BODY,
    responses={
        413: {"description": "The body is larger than the limit."},
        422: {"description": "The body does not have this digest."},
        507: {"description": "The service's disk is full."},
    },
)
async def put(sha256: Sha256, request: Request, services: Use) -> BundleView:
    """Upload a folder of code. `script.bundle` of a spec refers to it by its digest."""
    settings, storage = services.settings, services.storage
    announced = request.headers.get("content-length", "")
    if announced.isdigit():
        require_free(storage.staging_dir, int(announced[:20]) + settings.min_free_bytes)
    stored = await storage.put_stream(
        request.stream(), sha256=sha256, limit=settings.max_bundle_bytes
    )
    if stored.size_bytes == 0:
        raise BadRequest("the body is empty; send the code as a tar", code="empty_body")
    return await run_in_threadpool(
        services.database.write,
        lambda session: bundle_view(add_bundle(session, storage, stored)),
    )
