"""The card's texts about a detector: how to run it, and its training images."""

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

options = onnxruntime.SessionOptions()
options.log_severity_level = 3  # it warns that `threshold` has a default
session = onnxruntime.InferenceSession("model.onnx", options)
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
size, mode = {size}, "{mode}"


def detect(path, threshold={threshold}):
    image = ImageOps.exif_transpose(Image.open(path)).convert(mode)
    width, height = image.size
    {fit}
    pixels = np.asarray({resized}, dtype=np.float32).reshape(size, size, {channels}) / 255
    images = pixels.transpose(2, 0, 1)[np.newaxis]  # (1, {channels}, {size}, {size}) in [0, 1]
    feed = {{"images": images, "threshold": np.array([threshold], np.float32)}}
    boxes, scores, labels = session.run(["boxes", "scores", "labels"], feed)
    boxes = (boxes[0] - [left, top, left, top]) / [across, down, across, down]
    return [
        (classes[label], float(score), box.tolist())
        for label, score, box in zip(labels[0], scores[0], boxes, strict=True)
        if label >= 0
    ]"""
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


def write_detector_texts(
    preprocessing: dict[str, Any],
    *,
    num_classes: int,
    threshold: float,
    augment: dict[str, Any],
) -> CardTexts:
    """Write the parts of the card that are about images and boxes.

    Args:
        preprocessing: Preprocessing in the manifest.
        num_classes: Number of classes.
        threshold: Smallest score of a reported box, by default.
        augment: `training.augment` of the resolved spec.
    """
    kind, size = preprocessing["channel_order"], preprocessing["size"]
    changes = ", ".join(f"{k} {v}" for k, v in augment.items() if v) or "none"
    return CardTexts(
        does=f"finds objects of {num_classes} classes in {kind} images, which become {size}x{size} "
        "pixels",
        usage="`model.onnx` takes `images`, float32 (batch, channels, height, width) in [0, 1]; "
        "any batch size. Normalisation and the suppression of overlapping boxes are included. It "
        "returns `boxes` (batch, 100, 4), `scores` (batch, 100) and `labels` (batch, 100), the "
        "best first; places without a box have score 0 and label -1. Boxes are left, top, right, "
        "bottom in pixels of the input. The input `threshold` (1,) is the smallest score of a "
        f"reported box; without it, {threshold:g} is used, which has the highest F1 on the "
        f"validation split.\n\n{usage_code(preprocessing, threshold=threshold)}",
        preprocessing=f"{preprocessing['resize']} to {size} pixels "
        f"({preprocessing['resampling']}; {preprocessing['letterbox']}), "
        f"{preprocessing['channel_order']}; mean {list_numbers(preprocessing['mean'])}, std "
        f"{list_numbers(preprocessing['std'])} of the training split",
        training=[f"Augmentation: {changes}"],
    )


def usage_code(preprocessing: dict[str, Any], *, threshold: float, template: str = USAGE) -> str:
    """Return a runnable snippet that finds objects in an image, in the image's own pixels."""
    is_grey = preprocessing["channel_order"] == "grey"
    return template.format(
        size=preprocessing["size"],
        mode="L" if is_grey else "RGB",
        channels=1 if is_grey else 3,
        threshold=threshold,
        fit=FITS[preprocessing["resize"]],
        resized=RESIZED[preprocessing["resize"]],
    ) + MAIN_IMAGES.replace("ANSWER", "*(one[:3] for one in detect(path))")
