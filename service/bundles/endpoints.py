"""Uploaded files over HTTP: code bundles of scripts, and ONNX files to train."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor

from redkiln.views.artifact import BundleView
from service.bundles.model_files import check_model_file
from service.bundles.rules import add_bundle, bundle_view, use_bundle
from service.errors import BadRequest
from service.http.access import require_scripts, require_user
from service.http.parameters import refuse_unknown_parameters
from service.services import Services, Use
from service.storage import Storage, require_free

router = APIRouter(
    prefix="/v1/bundles",
    tags=["scripts"],
    dependencies=[Depends(require_scripts), Depends(refuse_unknown_parameters)],
)

models_router = APIRouter(
    prefix="/v1/models",
    tags=["models"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)


class Sha256Convertor(Convertor[str]):
    """Matches only digests, because the same place in a path may also have a model's name."""

    regex = "[0-9a-f]{64}"

    def convert(self, value: str) -> str:
        """Return the digest."""
        return value

    def to_string(self, value: str) -> str:
        """Return the digest."""
        return value


register_url_convertor("sha256", Sha256Convertor())

Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A tar of regular files and folders, without links.",
        "content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_MODEL_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "An ONNX file with its weights inside.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
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
    return await _put(sha256, request, services)


@models_router.get("/{sha256:sha256}")
def look_up_model(sha256: Sha256, services: Use) -> BundleView:
    """Check whether an ONNX file is stored. This also extends how long it is kept."""
    return services.database.write(lambda session: bundle_view(use_bundle(session, sha256)))


@models_router.put(
    "/{sha256:sha256}",
    status_code=201,
    openapi_extra=_MODEL_BODY,
    responses={
        413: {"description": "The body is larger than the limit."},
        422: {"description": "It has another digest, or cannot be trained (`unsupported_onnx`)."},
        507: {"description": "The service's disk is full."},
    },
)
async def put_model(sha256: Sha256, request: Request, services: Use) -> BundleView:
    """Upload an ONNX file to train. `model.file` of a spec refers to it by its digest."""
    return await _put(sha256, request, services, check=check_model_file)


async def _put(
    sha256: str,
    request: Request,
    services: Services,
    *,
    check: Callable[[Storage, str], None] = lambda _storage, _sha256: None,
) -> BundleView:
    settings, storage = services.settings, services.storage
    announced = request.headers.get("content-length", "")
    if announced.isdigit():
        require_free(storage.work_dir, int(announced[:20]) + settings.min_free_bytes)
    stored = await storage.put_stream(
        request.stream(), sha256=sha256, limit=settings.max_bundle_bytes
    )
    if stored.size_bytes == 0:
        raise BadRequest("the body is empty; send the file", code="empty_body")
    await run_in_threadpool(check, storage, stored.sha256)
    return await run_in_threadpool(
        services.database.write,
        lambda session: bundle_view(add_bundle(session, storage, stored)),
    )
