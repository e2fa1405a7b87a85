"""Uploads in parts over HTTP."""

import base64
import binascii
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from redkiln.tables import TableOptions
from redkiln.views.dataset import DatasetStatus, DatasetView, UploadView
from service.datasets.rules import check_name, dataset_view
from service.errors import BadRequest, TooLarge
from service.http.access import require_user
from service.http.bodies import JsonRoute
from service.http.parameters import refuse_unknown_parameters
from service.keys.caller import Caller
from service.services import Use
from service.storage import Stored, require_free
from service.uploads import rules

router = APIRouter(
    route_class=JsonRoute,
    prefix="/v1/uploads",
    tags=["datasets"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)
_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/]{43}=):")
_PART: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class NewUpload(TableOptions):
    """What will be uploaded, and the options of a table in it."""

    name: str = Field(max_length=100, description="Name of the data set.")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="Digest of the whole file.")
    size_bytes: int = Field(ge=1, description="Size of the whole file.")
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Random seed of the splits.")

    @property
    def table_options(self) -> TableOptions:
        """The options for a table in the file."""
        return TableOptions.model_validate(self.model_dump(include=set(TableOptions.model_fields)))


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": UploadView, "description": "The upload or the data set exists already."},
        413: {"description": "The file is larger than the limit."},
        507: {"description": "The service's disk is full."},
    },
)
def begin(
    new: NewUpload,
    services: Use,
    caller: Annotated[Caller, Depends(require_user)],
    response: Response,
) -> UploadView:
    """Begin the upload of a data set in parts, or continue one with the same content and name.

    If the service has the content already, it makes the data set at once, and `dataset` has it.
    """
    settings = services.settings
    if new.size_bytes > settings.max_upload_bytes:
        message = f"the file is larger than the limit of {settings.max_upload_bytes} bytes"
        raise TooLarge(f"{message}; split the data set, or raise REDKILN_MAX_UPLOAD_BYTES")
    name = check_name(new.name)
    settings.uploads_dir.mkdir(mode=0o700, exist_ok=True)
    shown, is_new = rules.begin(
        services,
        caller=caller,
        name=name,
        seed=new.seed,
        stored=Stored(new.sha256, new.size_bytes),
        options=new.table_options,
    )
    response.status_code = 201 if is_new else 200
    return shown


@router.get("/{upload_id}")
def look_up(upload_id: str, services: Use) -> UploadView:
    """Get an upload: its parts that have arrived, and when it expires."""
    upload = services.database.read(lambda session: rules.get(session, upload_id))
    return rules.view(upload, services)


@router.put(
    "/{upload_id}/parts/{number}",
    status_code=204,
    response_class=Response,
    openapi_extra=_PART,
    responses={
        413: {"description": "The body is larger than a part."},
        422: {"description": "The body does not have this digest."},
        507: {"description": "The service's disk is full."},
    },
)
async def put_part(
    upload_id: str,
    number: Annotated[int, Path(ge=0, description="Number of the part, counted from 0.")],
    content_digest: Annotated[str, Header(description="`sha-256=:BASE64:` (RFC 9530).")],
    request: Request,
    services: Use,
) -> Response:
    """Send a part: bytes `number * part_bytes` and following. Parts may come in any order."""
    sha256 = _read_digest(content_digest)
    upload = await run_in_threadpool(
        services.database.read, lambda session: rules.get(session, upload_id)
    )
    settings = services.settings
    require_free(settings.uploads_dir, upload.part_bytes + settings.min_free_bytes)
    content = await request.body()
    await run_in_threadpool(rules.put_part, services, upload, number, content, sha256=sha256)
    return Response(status_code=204)


@router.post(
    "/{upload_id}/finish",
    status_code=202,
    responses={
        200: {"model": DatasetView, "description": "The newest set of this name is identical."},
        409: {"description": "Parts are missing (`parts_missing`); `missing` lists them."},
        422: {"description": "The whole file has another digest than announced."},
        503: {"description": "Another request joins the parts (`upload_finishing`)."},
        507: {"description": "The service's disk is full."},
    },
)
def finish(upload_id: str, services: Use, response: Response) -> DatasetView:
    """Make the data set from all parts. It is validated in the background.

    If the answer is lost, begin again: the upload continues, or `dataset` has what became of it.
    """
    upload = services.database.read(lambda session: rules.get(session, upload_id))
    dataset, is_new = rules.finish(services, upload)
    if not is_new and dataset.status != DatasetStatus.VALIDATING:
        response.status_code = 200
    response.headers["Location"] = f"/v1/datasets/{dataset.id}"
    return dataset_view(dataset)


@router.delete("/{upload_id}", status_code=204, response_class=Response)
def cancel(upload_id: str, services: Use) -> Response:
    """Cancel an upload and delete its parts."""
    rules.cancel(services, upload_id)
    return Response(status_code=204)


def _read_digest(header: str) -> str:
    """Return the SHA-256 of a `Content-Digest` header in hexadecimal.

    Raises:
        BadRequest: The header has no SHA-256.
    """
    found = _DIGEST.search(header)
    if found is None:
        message = "the header Content-Digest has no sha-256; send `sha-256=:BASE64:`"
        raise BadRequest(message, code="invalid_digest")
    try:
        return base64.b64decode(found[1], validate=True).hex()
    except binascii.Error:
        raise BadRequest("the header Content-Digest is not base64", code="invalid_digest") from None
