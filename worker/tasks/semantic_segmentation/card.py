"""The card's texts about a segmenter: how to run it, and its training images."""

from typing import Any

from worker.export.card.markdown import list_numbers
from worker.export.card.usage import MAIN_IMAGES
from worker.export.target import CardTexts

USAGE = """```python
import json
import os
import sys

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import, or it reports its use

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession("model.onnx")
names = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
size, mode = {size}, "{mode}"


def segment(path):
    image = ImageOps.exif_transpose(Image.open(path)).convert(mode)
    width, height = image.size
    {fit}
    pixels = np.asarray({resized}, dtype=np.float32).reshape(size, size, {channels}) / 255
    images = pixels.transpose(2, 0, 1)[np.newaxis]  # (1, {channels}, {size}, {size}) in [0, 1]
    (classes,) = session.run(["classes"], {{"images": images}})
    rows = ((np.arange(height) + 0.5) * down + top).astype(int).clip(0, size - 1)
    columns = ((np.arange(width) + 0.5) * across + left).astype(int).clip(0, size - 1)
    return classes[0][rows[:, np.newaxis], columns]  # (height, width), places in `names`"""
PIXELS = "{names[at]: int(num) for at, num in zip(*np.unique(segment(path), return_counts=True))}"
"""The number of pixels of each class, as code."""
FITS = {
    "pad": """inner = [max(1, round(side / max(width, height) * size)) for side in (width, height)]
    left, top = (round((size - side) / 2) for side in inner)
    across, down = inner[0] / width, inner[1] / height""",
    "stretch": "left, top, across, down = 0, 0, size / width, size / height",
}
RESIZED = {
    "pad": "ImageOps.pad(image, (size, size), Image.Resampling.BILINEAR, color=0)",
    "stretch": "image.resize((size, size), Image.Resampling.BILINEAR)",
}


def write_segmenter_texts(
    preprocessing: dict[str, Any], *, num_classes: int, augment: dict[str, Any]
) -> CardTexts:
    """Write the parts of the card that are about images and masks.

    Args:
        preprocessing: Preprocessing in the manifest.
        num_classes: Number of classes.
        augment: `training.augment` of the resolved spec.
    """
    kind, size = preprocessing["channel_order"], preprocessing["size"]
    changes = ", ".join(f"{k} {v}" for k, v in augment.items() if v) or "none"
    return CardTexts(
        does=f"gives each pixel of {kind} images one of {num_classes} classes; images become "
        f"{size}x{size} pixels",
        usage="`model.onnx` takes `images`, float32 (batch, channels, height, width) in [0, 1]; "
        "any batch size. Normalisation is included. It returns `logits` (batch, classes, height, "
        "width) and `classes` (batch, height, width) uint8, the class with the highest logit of "
        f"each pixel of the input.\n\n{usage_code(preprocessing)}",
        preprocessing=f"{preprocessing['resize']} to {preprocessing['size']} pixels "
        f"({preprocessing['resampling']}; {preprocessing['letterbox']}), "
        f"{preprocessing['channel_order']}; mean {list_numbers(preprocessing['mean'])}, std "
        f"{list_numbers(preprocessing['std'])} of the training split",
        training=[f"Augmentation: {changes}"],
    )


def usage_code(preprocessing: dict[str, Any]) -> str:
    """Return a runnable snippet that returns the class of each pixel of an image."""
    is_grey = preprocessing["channel_order"] == "grey"
    return USAGE.format(
        size=preprocessing["size"],
        mode="L" if is_grey else "RGB",
        channels=1 if is_grey else 3,
        fit=FITS[preprocessing["resize"]],
        resized=RESIZED[preprocessing["resize"]],
    ) + MAIN_IMAGES.replace("ANSWER", PIXELS)
