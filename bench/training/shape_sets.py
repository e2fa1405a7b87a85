"""Images of shapes with their boxes or masks, as a data set that a job can read."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from examples.detection.make_shapes import CLASSES, Shape, draw_images, draw_mask
from redkiln.annotations import (
    IGNORED,
    AnnotatedImage,
    Box,
    DetectionIndex,
    MaskedImage,
    ObjectMask,
    SegmentationIndex,
)
from redkiln.datasets import rank_within_classes
from redkiln.predict.masks.coding import Mask, pack_mask
from worker.jobdir import LocalDataset

OfImage = TypeVar("OfImage", AnnotatedImage, MaskedImage)


def write_boxed(
    folder: Path,
    *,
    num_train: int,
    side: int,
    num_test: int | None = None,
    has_masks: bool = False,
    boxes_of: Callable[[int, list[Box]], list[Box]] | None = None,
) -> LocalDataset:
    """Write images of shapes with their index.

    Args:
        folder: Folder to write to.
        num_train: Images for training and validation.
        side: Side of the images in pixels.
        num_test: Other images for testing; None tests with those for training.
        has_masks: Whether each object has a mask, for instance segmentation.
        boxes_of: Changes the boxes of an image by its number; None for no change.
    """
    folder.mkdir(exist_ok=True)
    images = []
    for number, (image, shapes) in enumerate(draw_images(num_train + (num_test or 0), size=side)):
        name = f"{number}.png"
        image.save(folder / name)
        boxes = [
            _cut_out(shape, side=side) if has_masks else Box(label=shape.label, xyxy=shape.box)
            for shape in shapes
        ]
        boxes = boxes if boxes_of is None else boxes_of(number, boxes)
        label = min((box.label for box in boxes if not box.crowd), default=None)
        images.append(
            AnnotatedImage(path=name, width=side, height=side, label=label, rank=0, boxes=boxes)
        )
    train = _rank(images[:num_train])
    index = DetectionIndex(
        task="instance-segmentation" if has_masks else "object-detection",
        classes=list(CLASSES),
        splits={"train": train, "test": train if num_test is None else _rank(images[num_train:])},
        image_size=(side, side),
        mixed_sizes=False,
        channels=3,
        seed=0,
        annotation_format="coco",
    )
    return _save_index(folder, index)


def write_masked(
    folder: Path,
    *,
    num_train: int,
    num_test: int,
    side: int,
    mask_of: Callable[[int, Mask], Mask] | None = None,
) -> LocalDataset:
    """Write images of shapes with the class of each pixel; `mask_of` changes masks."""
    folder.mkdir(exist_ok=True)
    images = []
    for number, (image, shapes) in enumerate(draw_images(num_train + num_test, size=side)):
        image.save(folder / f"{number}.png")
        mask = np.asarray(draw_mask(shapes, size=side))
        mask = mask if mask_of is None else mask_of(number, mask)
        labels = [label for label in np.unique(mask).tolist() if label != IGNORED]
        images.append(
            MaskedImage(
                path=f"{number}.png",
                width=side,
                height=side,
                label=shapes[0].label + 1,
                labels=labels,
                mask=pack_mask(mask),
                mask_size=(side, side),
                rank=0,
            )
        )
    index = SegmentationIndex(
        mask_format="png",
        classes=["background", *CLASSES],
        splits={"train": _rank(images[:num_train]), "test": _rank(images[num_train:])},
        image_size=(side, side),
        mixed_sizes=False,
        channels=3,
        seed=0,
    )
    return _save_index(folder, index)


def _rank(images: list[OfImage]) -> list[OfImage]:
    ranks = rank_within_classes([image.stratum for image in images], seed=0)
    return [
        image.model_copy(update={"rank": rank}) for image, rank in zip(images, ranks, strict=True)
    ]


def _save_index(folder: Path, index: DetectionIndex | SegmentationIndex) -> LocalDataset:
    path = folder / "index.json"
    path.write_text(index.model_dump_json())
    return LocalDataset(
        name="shapes",
        kind="folder",
        path=str(folder),
        index_path=str(path),
        fingerprint=f"{index.task} of {folder}",
    )


def _cut_out(shape: Shape, *, side: int) -> Box:
    """Return an object with its mask, and the smallest box around the mask."""
    mask = (np.asarray(draw_mask([shape], size=side)) > 0).astype(np.uint8)
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    left, top, right, bottom = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    inside = mask[top:bottom, left:right]
    packed = ObjectMask(packed=pack_mask(inside), size=(right - left, bottom - top))
    return Box(label=shape.label, xyxy=(left, top, right, bottom), mask=packed)
