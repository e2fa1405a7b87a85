"""Samples of a data set over HTTP: pages of images, with one picture of each, and of rows."""

import os
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from redkiln.annotations import AnnotatedImage, Box, MaskedImage
from redkiln.datasets import ImageFile
from redkiln.views.evaluation import Tiles
from redkiln.views.sample import DatasetRow, DatasetSample, RowPage, SampleBox, SamplePage
from service.artifacts.content import choose_part, make_etag
from service.datasets.held_out import SentFile, collect_test_split
from service.datasets.inspect.tiles import TileBox, TileImage, TileMask
from service.datasets.rows import read_rows
from service.datasets.rules import get_dataset
from service.datasets.samples import (
    AnyIndex,
    Split,
    choose_samples,
    load_index,
    name_classes,
)
from service.datasets.tiles import count_columns, find_key, find_side, read_tiles
from service.errors import NotFound
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.services import Use
from service.storage import CHUNK_BYTES

router = APIRouter(
    prefix="/v1/datasets/{dataset_id}",
    tags=["datasets"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)
OfSplit = Annotated[Split, Query(description="Split to list.")]
OfClass = Annotated[str | None, Query(alias="class", max_length=1000, description="Class to list.")]
After = Annotated[
    str | None,
    Query(pattern=r"^(train|test)-\d{1,9}$", description="Continue after this sample."),
]
Limit = Annotated[int, Query(ge=1, le=100)]
Mixed = Annotated[
    bool,
    Query(
        description="List the first sample of each class, then the second of each, and so on; "
        "without `class`."
    ),
]
MOST_DRAWN = 500
"""Boxes that are drawn on one tile."""


@router.get("/samples")
def list_samples(
    dataset_id: str,
    services: Use,
    split: OfSplit = "train",
    class_name: OfClass = None,
    after: After = None,
    limit: Limit = 50,
    mixed: Mixed = False,
) -> SamplePage:
    """List images of a data set by split and class. `tiles.url` is a picture of the page."""
    dataset = services.database.read(lambda session: get_dataset(session, dataset_id))
    index = load_index(services.storage, dataset)
    found = choose_samples(
        index,
        split=split,
        class_name=class_name,
        after=_position(after),
        limit=limit + 1,
        is_mixed=mixed,
    )
    shown = found[:limit]
    query = {"split": split, "class": class_name, "after": after, "limit": limit}
    query |= {"mixed": "true"} if mixed else {}
    given = urlencode({name: value for name, value in query.items() if value is not None})
    url = f"/v1/datasets/{dataset.id}/tiles?{given}"
    columns, side = count_columns(dataset, len(shown)), find_side(dataset)
    tiles = Tiles(name="tiles.png", columns=columns, side=side, url=url)
    samples = [
        DatasetSample(
            id=f"{split}-{placed.position}",
            split=split,
            class_name=name_classes(index, placed.sample),
            path=placed.sample.path,
            row=placed.sample.row,
            tile=number,
            **_describe_boxes(index, placed.sample),
        )
        for number, placed in enumerate(shown)
    ]
    return SamplePage(
        data=samples,
        has_more=len(found) > limit,
        first_id=samples[0].id if samples else None,
        last_id=samples[-1].id if samples else None,
        tiles=tiles if shown else None,
    )


@router.get(
    "/tiles",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}, 304: {"description": "Unchanged."}},
)
def get_tiles(
    dataset_id: str,
    request: Request,
    services: Use,
    split: OfSplit = "train",
    class_name: OfClass = None,
    after: After = None,
    limit: Limit = 50,
    mixed: Mixed = False,
) -> Response:
    """Get the images of a page as one PNG of square tiles, row by row. Use the page's URL."""
    dataset = services.database.read(lambda session: get_dataset(session, dataset_id))
    index = load_index(services.storage, dataset)
    shown = choose_samples(
        index,
        split=split,
        class_name=class_name,
        after=_position(after),
        limit=limit,
        is_mixed=mixed,
    )
    if not shown:
        raise NotFound("there are no such samples", code="no_picture")
    images = [_tile_image(one.sample, num_classes=len(index.classes)) for one in shown]
    etag = make_etag(find_key(dataset, images))
    headers = {"ETag": etag, "Cache-Control": "private, max-age=86400"}
    if choose_part(request.headers, method="HEAD", etag=etag, size_bytes=0).status == 304:
        return Response(status_code=304, headers=headers)
    content = read_tiles(services.settings, services.storage, dataset, images)
    return Response(content, 200, headers, "image/png")


@router.get("/rows")
def list_rows(
    dataset_id: str,
    services: Use,
    split: OfSplit = "train",
    class_name: OfClass = None,
    after: After = None,
    limit: Limit = 50,
    mixed: Mixed = False,
) -> RowPage:
    """List rows of a table or of texts by split and class, as text. A missing cell is null."""
    dataset = services.database.read(lambda session: get_dataset(session, dataset_id))
    position = _position(after)
    found = read_rows(
        services.storage,
        dataset,
        split=split,
        class_name=class_name,
        after=-1 if position is None else position,
        limit=limit + 1,
        is_mixed=mixed,
    )
    rows = [
        DatasetRow(id=f"{split}-{row.position}", split=split, target=row.target, cells=row.cells)
        for row in found.rows[:limit]
    ]
    return RowPage(
        data=rows,
        has_more=len(found.rows) > limit,
        first_id=rows[0].id if rows else None,
        last_id=rows[-1].id if rows else None,
        columns=found.columns,
        num_columns=found.num_columns,
    )


@router.get(
    "/test-samples",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"application/zip": {}}},
        410: {"description": "The folder has changed since it was registered."},
        422: {"description": "The test split is larger than 4 GiB."},
    },
)
def get_test_samples(dataset_id: str, services: Use) -> StreamingResponse:
    """Download the test split as a zip.

    A table is `rows.csv`. Images have their classes in `labels.csv`, their boxes and the pixels of
    objects in `_annotations.coco.json`, or their masks in `masks/*.png` and the classes' names in
    `classes.txt`: a folder of the same form can be pushed.
    """
    dataset = services.database.read(lambda session: get_dataset(session, dataset_id))
    file = collect_test_split(services.settings, services.storage, dataset)
    headers = {"Content-Length": str(os.fstat(file.fileno()).st_size)}
    return StreamingResponse(_stream(file), 200, headers, "application/zip")


def _stream(file: SentFile) -> Iterator[bytes]:
    with file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def _tile_image(sample: ImageFile, *, num_classes: int) -> TileImage:
    boxes: tuple[TileBox, ...] = ()
    mask = None
    if isinstance(sample, AnnotatedImage):
        boxes = tuple(_tile_box(sample, box) for box in sample.boxes[:MOST_DRAWN])
    elif isinstance(sample, MaskedImage):
        mask = TileMask(sample.mask, sample.mask_size, num_classes)
    return TileImage(sample.path, sample.row, sample.array, boxes, mask)


def _tile_box(image: AnnotatedImage, box: Box) -> TileBox:
    left, top, right, bottom = box.xyxy
    width, height = image.width, image.height
    ends = (left / width, top / height, right / width, bottom / height)
    mask = (box.mask.packed, box.mask.size) if box.mask is not None else None
    return TileBox(box.label, ends, mask)


def _describe_boxes(index: AnyIndex, sample: ImageFile) -> dict[str, Any]:
    """Return the size of an image, and its objects; nothing for a classification."""
    if isinstance(sample, MaskedImage):
        return {"width": sample.width, "height": sample.height}
    if not isinstance(sample, AnnotatedImage):
        return {}
    boxes = [SampleBox(class_name=index.classes[box.label], **dict(box)) for box in sample.boxes]
    return {"width": sample.width, "height": sample.height, "boxes": boxes}


def _position(sample_id: str | None) -> int | None:
    return None if sample_id is None else int(sample_id.partition("-")[2])
