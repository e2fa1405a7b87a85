"""Draws the masks and boxes of objects over images, in the colours of their classes.

Shapes: H and W height and width of the image, M objects.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from redkiln.annotations import class_colour
from redkiln.predict.boxes.scores import Detections
from redkiln.predict.instances.regions import decode
from redkiln.predict.masks.drawing import STRENGTH


def tint(picture: Image.Image, mask: NDArray[np.uint8], label: int) -> None:
    """Colour the pixels of an object, a mask (H, W) of 0 and 1, in a picture."""
    strength = Image.fromarray(mask * np.uint8(round(255 * STRENGTH)))
    picture.paste(class_colour(label), (0, 0), strength)


def draw_detections(image: NDArray[np.uint8], objects: Detections) -> NDArray[np.uint8]:
    """Return a square image (S, S, 1 or 3) with objects as (S, S, 3), the first one on top."""
    grey = image.shape[2] == 1
    picture = Image.fromarray(image[..., 0] if grey else image).convert("RGB")
    pen, width = ImageDraw.Draw(picture), max(1, image.shape[0] // 100)
    masks = decode(objects.regions or (), objects.side)
    labels, boxes = objects.labels.tolist(), objects.boxes.tolist()
    for mask, label, box in reversed(list(zip(masks, labels, boxes, strict=True))):
        if label >= 0:
            tint(picture, mask, label)
            pen.rectangle(box, outline=class_colour(label), width=width)
    return np.asarray(picture)
