"""The card's texts about an image classifier: how to run it, and its training images."""

from typing import Any

from worker.export.card.markdown import list_numbers
from worker.export.card.usage import LABELS, MAIN_IMAGES, SOFTMAX
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
metadata = session.get_modelmeta().custom_metadata_map
classes = json.loads(metadata["classes"])
{constants}
{helper}

def predict(path):
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I"):  # 16-bit grey
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("P", "PA", "LA", "RGBA") or "transparency" in image.info:  # onto black
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, (0, 0, 0, 255)), image)
    image = image.convert("{mode}")
{run}
    return {answer}
"""
RUN_PLAIN = """\
    image = {resize}
    pixels = np.asarray(image, dtype=np.float32).reshape(size, size, {channels}) / 255
    images = pixels.transpose(2, 0, 1)[np.newaxis]  # (1, {channels}, {size}, {size}) in [0, 1]
    (outputs,) = session.run(None, {{"{input}": images}})"""
RUN_EMBEDDED = """\
    photos = np.asarray(image).reshape(1, image.height, image.width, {channels})
    (outputs,) = session.run(["probabilities"], {{"{input}": photos}})"""

ANSWER_CLASSES = "dict(zip(classes, softmax(outputs[0]), strict=True))"
ANSWER_PROBABILITIES = "dict(zip(classes, outputs[0].tolist(), strict=True))"
ANSWER_LABELS = "find_labels(outputs[0])"
RESIZE_CODE = {
    "stretch": "image.resize((size, size), Image.Resampling.BILINEAR)",
    "crop": "ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)",
    "pad": "ImageOps.pad(image, (size, size), Image.Resampling.BILINEAR, color=0)",
}


def write_image_texts(
    options: dict[str, Any],
    *,
    num_classes: int,
    preprocessing: dict[str, Any],
    augment: dict[str, Any],
) -> CardTexts:
    """Write the parts of the card that are about images.

    Args:
        options: `model.options` of the resolved spec.
        num_classes: Number of classes.
        preprocessing: Preprocessing in the manifest.
        augment: `training.augment` of the resolved spec.
    """
    kind = "grey" if options["channels"] == 1 else "RGB"
    changes = ", ".join(f"{k} {v}" for k, v in augment.items() if v) or "none"
    what = f"{kind} images of {options['image_size']}x{options['image_size']} pixels"
    has_labels = "labels_separator" in preprocessing
    does, thresholds = f"sorts {what} into {num_classes} classes", ""
    gives = f"`{preprocessing['output']}`"
    if has_labels:
        does = f"finds which of {num_classes} labels {what} have"
        gives, thresholds = "`probabilities`", " and thresholds"
    gives += " (batch, classes)"
    return CardTexts(
        does=does,
        usage=f"`model.onnx` takes {_describe_input(preprocessing)} It returns {gives}; its "
        f"metadata contain the class names{thresholds}.\n\n{usage_code(options, preprocessing)}",
        preprocessing=f"{preprocessing['resize']} to {preprocessing['size']} pixels "
        f"({preprocessing['resampling']}), {preprocessing['channel_order']}; mean "
        f"{list_numbers(preprocessing['mean'])}, std {list_numbers(preprocessing['std'])}"
        f"{_name_origin(preprocessing)}",
        training=[f"Augmentation: {changes}"],
    )


def _describe_input(preprocessing: dict[str, Any]) -> str:
    name = preprocessing["input"]
    if preprocessing.get("interface") == "embedded":
        return (
            f"`{name}`, uint8 (batch, height, width, channels) of any size, in batches of photos "
            "of one size. Resizing and normalisation are included. `top_scores` and `top_classes` "
            "are the most probable classes."
        )
    return (
        f"`{name}`, float32 (batch, channels, height, width) in [0, 1]; any batch size. "
        "Normalisation is included."
    )


def _name_origin(preprocessing: dict[str, Any]) -> str:
    is_plain = set(preprocessing["mean"]) == {0.0} and set(preprocessing["std"]) == {1.0}
    return ", so the graph gets pixels from 0 to 1" if is_plain else " of the training split"


def usage_code(options: dict[str, Any], preprocessing: dict[str, Any]) -> str:
    """Return a runnable snippet that prepares an image as training did and runs the model.

    Args:
        options: `model.options` of the resolved spec.
        preprocessing: Preprocessing in the manifest.
    """
    has_labels = "labels_separator" in preprocessing
    is_embedded = preprocessing.get("interface") == "embedded"
    run = (RUN_EMBEDDED if is_embedded else RUN_PLAIN).format(
        size=options["image_size"],
        channels=options["channels"],
        resize=RESIZE_CODE[options["resize"]],
        input=preprocessing["input"],
    )
    helper, answer = SOFTMAX, ANSWER_CLASSES
    if has_labels:
        helper, answer = LABELS, ANSWER_LABELS
    elif is_embedded:
        helper, answer = "", ANSWER_PROBABILITIES
    return USAGE.format(
        constants="" if is_embedded else f"size = {options['image_size']}",
        mode="L" if options["channels"] == 1 else "RGB",
        helper=helper,
        run=run,
        answer=answer,
    ).rstrip("\n") + MAIN_IMAGES.replace("ANSWER", "predict(path)")
