"""Writes what is known about test images, in a form that a data set can have, too."""

import csv
import io
from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from redkiln import coco
from redkiln.annotations import (
    MASK_FOLDER,
    MASK_NAMES,
    AnnotatedImage,
    AnyImageIndex,
    Box,
    DetectionIndex,
    ObjectMask,
    SegmentationIndex,
)
from redkiln.cells import label_file
from redkiln.datasets import DatasetIndex
from redkiln.predict.masks.coding import unpack_mask
from redkiln.predict.masks.drawing import write_png


def write_answers(index: AnyImageIndex, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files with the answers for the test split, as name and content.

    Classes are in `labels.csv`, boxes in `_annotations.coco.json`, and masks in `masks/` with
    `classes.txt`.

    Args:
        index: Index of the data set.
        names: File name of each test image.
    """
    match index:
        case DatasetIndex():
            yield label_file.NAME, _write_labels(index, names).encode()
        case DetectionIndex():
            yield coco.NAME, _write_boxes(index, names).model_dump_json(exclude_none=True).encode()
        case SegmentationIndex():
            yield from _write_masks(index, names)


def _write_labels(index: DatasetIndex, names: Sequence[str]) -> str:
    labels = io.StringIO()
    writer = csv.writer(labels, lineterminator="\r\n")
    writer.writerow(["file", "labels"])
    separator = index.labels_separator or label_file.SEPARATOR
    for name, sample in zip(names, index.splits.get("test", []), strict=True):
        chosen = [sample.label] if sample.labels is None else sample.labels
        writer.writerow([name, separator.join(index.classes[label] for label in chosen)])
    return labels.getvalue()


def _write_boxes(index: DetectionIndex, names: Sequence[str]) -> coco.CocoFile:
    images = index.splits.get("test", [])
    written = [
        coco.CocoImage(id=number, file_name=name, width=image.width, height=image.height)
        for number, (name, image) in enumerate(zip(names, images, strict=True), 1)
    ]
    categories = [coco.CocoCategory(id=n, name=name) for n, name in enumerate(index.classes, 1)]
    objects = [
        one for number, image in enumerate(images, 1) for one in _list_objects(number, image)
    ]
    for number, one in enumerate(objects, 1):
        one.id = number
    return coco.CocoFile(images=written, categories=categories, annotations=objects)


def _list_objects(number: int, image: AnnotatedImage) -> Iterator[coco.CocoObject]:
    for box in image.boxes:
        left, top, right, bottom = box.xyxy
        width, height = right - left, bottom - top
        runs = None if box.mask is None else _write_runs(box, box.mask, image)
        yield coco.CocoObject(
            image_id=number,
            category_id=box.label + 1,
            bbox=(left, top, width, height),
            area=width * height if runs is None else sum(runs.counts[1::2]),
            segmentation=runs,
            iscrowd=int(box.crowd),
        )


def _write_runs(box: Box, mask: ObjectMask, image: AnnotatedImage) -> coco.CocoRuns:
    """Return the pixels of an object as runs of its whole image."""
    left, top, right, bottom = (round(end) for end in box.xyxy)
    inside = unpack_mask(mask.packed, mask.size)
    if inside.shape != (bottom - top, right - left):  # large masks have fewer pixels
        size = right - left, bottom - top
        inside = np.asarray(Image.fromarray(inside).resize(size, Image.Resampling.NEAREST))
    columns, rows = np.nonzero(inside.T)  # down the columns
    places = (left + columns) * image.height + top + rows
    is_end = np.diff(places) > 1
    starts = places[np.concatenate([[True], is_end])]
    ends = places[np.concatenate([is_end, [True]])] + 1
    bounds = np.stack([starts, ends], axis=1).reshape(-1)
    counts = np.diff(bounds, prepend=0, append=image.width * image.height)
    return coco.CocoRuns(counts=counts.tolist(), size=(image.height, image.width))


def _write_masks(index: SegmentationIndex, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    yield MASK_NAMES, "".join(f"{name}\n" for name in index.classes).encode()
    for name, image in zip(names, index.splits.get("test", []), strict=True):
        mask = unpack_mask(image.mask, image.mask_size)
        stem = name.rpartition(".")[0]
        yield f"{MASK_FOLDER}/{stem}.png", write_png(mask, index.classes)
