"""Data sets over HTTP."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field, ValidationError
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool

from redkiln.spec.problems import find_problems
from redkiln.spec.written import NAME_RULE
from redkiln.tables import TableOptions
from redkiln.views.dataset import DatasetStatus, DatasetView
from redkiln.views.page import Page
from service.datasets.models import Dataset
from service.datasets.options import read_options
from service.datasets.roots import locate
from service.datasets.rules import (
    check_name,
    dataset_view,
    delete_dataset,
    get_dataset,
    list_datasets,
    register_archive,
    register_folder,
)
from service.errors import BadRequest, Unprocessable
from service.http.access import require_user
from service.http.bodies import apply
from service.http.malformed import read_json
from service.http.media import check_start, is_json
from service.http.parameters import refuse_unknown_parameters
from service.keys.caller import Caller
from service.projects.quotas import check_stored
from service.projects.seen import Seen
from service.services import Services, Use
from service.storage import Stored, require_free

router = APIRouter(
    prefix="/v1/datasets",
    tags=["datasets"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)


class Folder(TableOptions):
    """A folder on the service's machine that is registered in place."""

    path: str = Field(
        min_length=1,
        max_length=4096,
        description="Absolute path below a REDKILN_DATA_ROOTS folder.",
    )
    name: str | None = Field(None, description="Name of the data set; default: the folder's name.")
    seed: int = Field(0, ge=0, le=2**31 - 1, description="Random seed of the sample order.")

    @property
    def options(self) -> TableOptions:
        """The options for a table in the folder."""
        return TableOptions.model_validate(self.model_dump(include=set(TableOptions.model_fields)))


def _describe(option: str) -> str | None:
    return TableOptions.model_fields[option].description


_RAW = {"schema": {"type": "string", "format": "binary"}}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A zip or tar (plain, gzip, bzip2, xz) of `train/<class>/*` and "
        "`test/<class>/*`, or of `<class>/*`; a table (CSV, TSV, JSON lines or Parquet, plain or "
        ".gz, or train.* and test.* in an archive); or, as JSON, a folder on the service's host.",
        "content": {
            "text/csv": _RAW,
            "text/tab-separated-values": _RAW,
            "application/x-ndjson": _RAW,
            "application/vnd.apache.parquet": _RAW,
            "application/zip": _RAW,
            "application/x-tar": _RAW,
            "application/octet-stream": _RAW,
            "application/json": {"schema": Folder.model_json_schema()},
        },
    }
}


@router.post(
    "",
    status_code=202,
    response_model=DatasetView,
    openapi_extra=_BODY,
    responses={
        200: {"model": DatasetView, "description": "The newest set of this name is identical."},
        413: {"description": "The body is larger than the limit."},
        415: {"description": "The body is neither JSON nor raw bytes."},
        507: {"description": "The service's disk is full."},
    },
)
async def register(
    request: Request,
    services: Use,
    caller: Annotated[Caller, Depends(require_user)],
    name: Annotated[str | None, Query(description=f"{NAME_RULE}.")] = None,
    seed: Annotated[int, Query(ge=0, le=2**31 - 1, description="Random seed of the splits.")] = 0,
    task: Annotated[str | None, Query(max_length=100, description=_describe("task"))] = None,
    target: Annotated[str | None, Query(max_length=300, description=_describe("target"))] = None,
    text: Annotated[str | None, Query(max_length=300, description=_describe("text"))] = None,
    column: Annotated[
        list[str] | None,
        Query(
            description="NAME=TYPE, where TYPE is numeric, categorical, text or ignored; "
            "repeatable."
        ),
    ] = None,
    header: Annotated[bool | None, Query(description=_describe("header"))] = None,
    delimiter: Annotated[
        str | None, Query(max_length=20, description=_describe("delimiter"))
    ] = None,
    encoding: Annotated[str | None, Query(max_length=50, description=_describe("encoding"))] = None,
    decimal: Annotated[str | None, Query(max_length=20, description=_describe("decimal"))] = None,
    missing: Annotated[list[str] | None, Query(description=_describe("missing"))] = None,
    classes: Annotated[
        list[str] | None, Query(alias="class", description=_describe("classes"))
    ] = None,
    labels_separator: Annotated[
        str | None, Query(max_length=10, description=_describe("labels_separator"))
    ] = None,
    skip_bad: Annotated[int | None, Query(description=_describe("skip_bad"))] = None,
) -> Response:
    """Register a data set by uploading it or by naming a folder on the service's host.

    The data set is validated in the background. The parameters from `task` on describe a table;
    what they leave unset is inferred from the content.
    """
    if is_json(request.headers.get("content-type", "")):
        folder = await apply(_parse_folder, await request.body())
        dataset = await run_in_threadpool(_register_folder, services, folder, name, caller)
        return _answer(dataset, is_new=True)
    checked_name = check_name(name)
    options = read_options(
        column or (),
        task=task,
        target=target,
        text=text,
        header=header,
        delimiter=delimiter,
        encoding=encoding,
        decimal=decimal,
        missing=missing,
        classes=classes,
        labels_separator=labels_separator,
        skip_bad=skip_bad,
    )
    stored = await _receive(request, services, caller)
    dataset, is_new = await run_in_threadpool(
        _register_archive,
        services,
        project=caller.project,
        name=checked_name,
        seed=seed,
        stored=stored,
        options=options,
    )
    return _answer(dataset, is_new=is_new)


@router.get("")
def list_all(
    services: Use,
    project: Seen,
    name: Annotated[str | None, Query(max_length=100, description="Only this name.")] = None,
    part: Annotated[
        str | None,
        Query(alias="q", max_length=100, description="Only names that contain this text."),
    ] = None,
    after: Annotated[
        str | None, Query(max_length=64, description="Continue after this data set.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Page[DatasetView]:
    """List data sets, including the built-in ones, newest first."""
    rows = services.database.read(
        lambda session: list_datasets(
            session, name=name, part=part, after=after, limit=limit + 1, project=project
        )
    )
    shown = [dataset_view(row) for row in rows[:limit]]
    return Page[DatasetView](
        data=shown,
        has_more=len(rows) > limit,
        first_id=shown[0].id if shown else None,
        last_id=shown[-1].id if shown else None,
    )


@router.get("/{dataset_id}")
def look_up(dataset_id: str, services: Use) -> DatasetView:
    """Get a data set: its status, classes, columns and counts, or where and why it is invalid."""
    row = services.database.read(lambda session: get_dataset(session, dataset_id))
    return dataset_view(row)


@router.delete(
    "/{dataset_id}",
    status_code=204,
    response_class=Response,
    responses={409: {"description": "The data set is built in, or an unfinished job uses it."}},
)
def remove(dataset_id: str, services: Use) -> Response:
    """Delete a data set. A folder that was registered in place is not touched."""
    services.database.free(lambda session: delete_dataset(session, dataset_id))
    return Response(status_code=204)


async def _receive(request: Request, services: Services, caller: Caller) -> Stored:
    settings, storage = services.settings, services.storage
    announced = request.headers.get("content-length", "")
    if announced.isdigit():
        # Refuse before the first byte is read rather than when the disk is full.
        require_free(storage.work_dir, int(announced[:20]) + settings.min_free_bytes)
    more = int(announced[:20]) if announced.isdigit() else 0
    await run_in_threadpool(
        services.database.read,
        lambda session: check_stored(session, settings, caller, more_bytes=more),
    )
    body = check_start(request.stream(), request.headers.get("content-type", ""))
    stored = await storage.put_stream(body, limit=settings.max_upload_bytes)
    if stored.size_bytes == 0:
        raise BadRequest("the body is empty; send an archive or a table", code="empty_body")
    return stored


def _parse_folder(body: bytes) -> Folder:
    try:
        return Folder.model_validate(read_json(body))
    except ValidationError as error:
        problems = find_problems(error.errors(include_url=False), Folder)
        detail = "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in problems)
        raise Unprocessable(detail, code="invalid_request", errors=problems) from None


def _register_folder(
    services: Services, folder: Folder, query_name: str | None, caller: Caller
) -> Dataset:
    located = locate(folder.path, services.settings.data_roots)
    name = check_name(folder.name or query_name or Path(located.path).name)
    dataset = services.database.write(
        lambda session: register_folder(
            session,
            name=name,
            seed=folder.seed,
            path=located.path,
            options=folder.options,
            project=caller.project,
        )
    )
    services.validator.submit(dataset)
    return dataset


def _register_archive(
    services: Services,
    *,
    name: str,
    seed: int,
    stored: Stored,
    options: TableOptions,
    project: str,
) -> tuple[Dataset, bool]:
    def write(session: Session) -> tuple[Dataset, bool]:
        return register_archive(
            session,
            services.storage,
            name=name,
            seed=seed,
            stored=stored,
            options=options,
            project=project,
        )

    dataset, is_new = services.database.write(write)
    if is_new:
        services.validator.submit(dataset)
    return dataset, is_new


def _answer(dataset: Dataset, *, is_new: bool) -> Response:
    return Response(
        dataset_view(dataset).model_dump_json(),
        202 if is_new or dataset.status == DatasetStatus.VALIDATING else 200,
        {"Location": f"/v1/datasets/{dataset.id}"},
        media_type="application/json",
    )
