"""Serves the bytes of a data set and of its index to the worker that trains on it."""

import structlog
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from redkiln.annotations import parse_image_index
from redkiln.tables import TABLE_TASKS
from service.artifacts.content import content_response
from service.datasets.folder_tar import list_samples, stream_tar
from service.datasets.models import Dataset
from service.datasets.roots import locate, open_located
from service.errors import Conflict, Gone, NotFound, Unprocessable
from service.services import Services

log = structlog.get_logger()


def dataset_content_response(services: Services, dataset: Dataset, *, request: Request) -> Response:
    """Respond with a data set's archive or a tar of its folder; for a table folder, with its index.

    Raises:
        NotFound: The data set is built in; the worker creates it.
        Conflict: The data set is not ready.
        Gone: Its bytes or its folder no longer exist.
    """
    if dataset.kind == "archive":
        return content_response(
            services.storage,
            str(dataset.sha256),
            request=request,
            filename=dataset.name,
            media_type="application/octet-stream",
        )
    _require_stored(dataset)
    if dataset.task in TABLE_TASKS:
        return index_response(services, dataset, request=request)
    index = parse_image_index(b"".join(services.storage.open(str(dataset.index_sha256))))
    try:
        located = locate(str(dataset.path), services.settings.data_roots)
        folder_fd = open_located(located)
    except (OSError, Unprocessable) as error:
        raise Gone(f"the folder {dataset.path} can no longer be read: {error}") from error
    content = stream_tar(folder_fd, list_samples(index))
    return _TarResponse(content, media_type="application/x-tar")


def index_response(services: Services, dataset: Dataset, *, request: Request) -> Response:
    """Respond with a data set's index.

    Raises:
        NotFound: The data set is built in; the worker creates it.
        Conflict: The data set is not ready.
        Gone: The index no longer exists.
    """
    _require_stored(dataset)
    is_table = dataset.task in TABLE_TASKS
    return content_response(
        services.storage,
        str(dataset.index_sha256),
        request=request,
        filename="index.parquet" if is_table else "index.json",
        media_type="application/vnd.apache.parquet" if is_table else "application/json",
    )


class _TarResponse(StreamingResponse):
    """A tar whose stream is cut off if its folder turns out to have changed."""

    async def stream_response(self, send: Send) -> None:
        """Send the tar; without the last message, the server closes the connection half-way."""
        try:
            await super().stream_response(send)
        except Gone as error:
            log.warning("dataset_changed", cause=error.detail)


def _require_stored(dataset: Dataset) -> None:
    if dataset.kind == "builtin":
        raise NotFound(f"{dataset.name} is built in; the worker creates it itself")
    if dataset.index_sha256 is None:
        message = f"the data set is {dataset.status}, not ready"
        raise Conflict(message, code="dataset_not_ready")
