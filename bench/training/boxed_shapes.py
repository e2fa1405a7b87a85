"""Images of shapes with their boxes or masks, as a data set that a job can read."""

from pathlib import Path

import numpy as np

from examples.detection.make_shapes import CLASSES, Shape, draw_images, draw_mask
from redkiln.annotations import AnnotatedImage, Box, DetectionIndex, ObjectMask
from redkiln.datasets import rank_within_classes
from redkiln.predict.masks.coding import pack_mask
from worker.jobdir import LocalDataset


def write_boxed(
    folder: Path, *, num_train: int, side: int, num_test: int | None = None, has_masks: bool = False
) -> LocalDataset:
    """Write images of shapes with their index.

    Args:
        folder: Folder to create.
        num_train: Images for training and validation.
        side: Side of the images in pixels.
        num_test: Other images for testing; None tests with those for training.
        has_masks: Whether each object has a mask, for instance segmentation.
    """
    folder.mkdir()
    images = []
    for number, (image, shapes) in enumerate(draw_images(num_train + (num_test or 0), size=side)):
        name = f"{number}.png"
        image.save(folder / name)
        boxes = [
            _cut_out(shape, side=side) if has_masks else Box(label=shape.label, xyxy=shape.box)
            for shape in shapes
        ]
        label = min((box.label for box in boxes), default=None)
        images.append(
            AnnotatedImage(path=name, width=side, height=side, label=label, rank=0, boxes=boxes)
        )
    train = images[:num_train]
    ranks = rank_within_classes(
        [-1 if image.label is None else image.label for image in train], seed=0
    )
    for image, rank in zip(train, ranks, strict=True):
        image.rank = rank
    index = DetectionIndex(
        task="instance-segmentation" if has_masks else "object-detection",
        classes=list(CLASSES),
        splits={"train": train, "test": train if num_test is None else images[num_train:]},
        image_size=(side, side),
        mixed_sizes=False,
        channels=3,
        seed=0,
        annotation_format="coco",
    )
    (folder / "index.json").write_text(index.model_dump_json())
    return LocalDataset(
        name="shapes",
        kind="folder",
        path=str(folder),
        index_path=str(folder / "index.json"),
        fingerprint=f"shapes, {num_train} and {num_test} of {side} pixels",
    )


def _cut_out(shape: Shape, *, side: int) -> Box:
    """Return an object with its mask, and the smallest box around the mask."""
    mask = (np.asarray(draw_mask([shape], size=side)) > 0).astype(np.uint8)
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    left, top, right, bottom = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    inside = mask[top:bottom, left:right]
    packed = ObjectMask(packed=pack_mask(inside), size=(right - left, bottom - top))
    return Box(label=shape.label, xyxy=(left, top, right, bottom), mask=packed)
