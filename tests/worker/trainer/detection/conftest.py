"""Small data sets of coloured rectangles, whose boxes can be read off the pixels."""

import numpy as np
import pytest
import torch

from redkiln.annotations import AnnotatedImage, Box, DetectionIndex
from redkiln.predict.pixels import PixelFormat
from worker.trainer.detection.objects import Objects
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.decode.facts import DecodedFacts
from worker.trainer.images.pixel_set import PixelSet

SIDE = 64
CPU = torch.device("cpu")


def build_index(boxes_of_images, *, classes=3, num_test=0, side=SIDE):
    """An index of images with these boxes, each (label, left, top, right, bottom)."""
    images = [
        AnnotatedImage(
            path=f"{number}.png",
            width=side,
            height=side,
            label=min((box[0] for box in boxes), default=None),
            rank=number,
            boxes=[Box(label=label, xyxy=tuple(xyxy)) for label, *xyxy in boxes],
        )
        for number, boxes in enumerate(boxes_of_images)
    ]
    first_test = len(images) - num_test
    return DetectionIndex(
        classes=[f"class {label}" for label in range(classes)],
        splits={"train": images[:first_test], "test": images[first_test:]},
        image_size=(side, side),
        mixed_sizes=False,
        channels=3,
        seed=0,
        annotation_format="coco",
    )


def paint(index, *, side=SIDE):
    """Pixels (N, S, S, 3) in which channel `label` of an object's box is 255."""
    images = index.splits["train"] + index.splits["test"]
    pixels = np.zeros((len(images), side, side, 3), dtype=np.uint8)
    for number, image in enumerate(images):
        for box in image.boxes:
            left, top, right, bottom = (round(value) for value in box.xyxy)
            pixels[number, top:bottom, left:right, box.label] = 255
    return pixels


@pytest.fixture
def open_set():
    """Opens an index as a set of pixels that are not normalised, and its objects."""

    def build(index, *, pixels=None, validation_fraction=0.0, device=CPU, **arguments):
        facts = DecodedFacts(num_rows=0, mean=[0.0] * 3, std=[1.0] * 3)
        decoded = DecodedImages(paint(index) if pixels is None else pixels, facts)
        images = PixelSet(
            decoded,
            index,
            validation_fraction=validation_fraction,
            device=device,
            memory_format=torch.contiguous_format,
            **arguments,
        )
        pixel_format = PixelFormat(size=SIDE, channels=3, resize="pad")
        return images, Objects(index, pixel_format, device=device)

    return build
