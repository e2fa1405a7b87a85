"""The card's texts about a network that finds objects and masks."""

from dataclasses import replace
from typing import Any

from redkiln.predict.instances.regions import INSIDE
from worker.export.target import CardTexts
from worker.tasks.object_detection.card import USAGE, usage_code, write_detector_texts

RUN = """    boxes, scores, labels = session.run(["boxes", "scores", "labels"], feed)
"""
RUN_MASKS = """    names = ["boxes", "scores", "labels", "masks"]
    boxes, scores, labels, masks = session.run(names, feed)
    outer = [round(end) for end in (left, top, left + across * width, top + down * height)]
    masks = [
        Image.fromarray(mask).resize((size, size), Image.Resampling.BILINEAR).crop(outer)
        for mask in masks[0]
    ]
"""
EACH = """        (classes[label], float(score), box.tolist())
        for label, score, box in zip(labels[0], scores[0], boxes, strict=True)
"""
EACH_MASK = f"""        (
            classes[label],
            float(score),
            box.tolist(),
            np.asarray(mask.resize((width, height), Image.Resampling.BILINEAR)) >= {INSIDE},
        )
        for label, score, box, mask in zip(labels[0], scores[0], boxes, masks, strict=True)
"""


def write_instance_texts(
    preprocessing: dict[str, Any],
    *,
    num_classes: int,
    threshold: float,
    augment: dict[str, Any],
) -> CardTexts:
    """Write the parts of the card that are about images, boxes and masks.

    Args:
        preprocessing: Preprocessing in the manifest.
        num_classes: Number of classes.
        threshold: Smallest score of a reported object, by default.
        augment: `training.augment` of the resolved spec.
    """
    texts = write_detector_texts(
        preprocessing, num_classes=num_classes, threshold=threshold, augment=augment
    )
    kind, size, side = (preprocessing[name] for name in ("channel_order", "size", "mask_side"))
    template = USAGE.replace(RUN, RUN_MASKS).replace(EACH, EACH_MASK)
    code = usage_code(preprocessing, threshold=threshold, template=template)
    return replace(
        texts,
        does=f"finds objects of {num_classes} classes and their masks in {kind} images, which "
        f"become {size}x{size} pixels",
        usage="`model.onnx` takes `images`, float32 (batch, channels, height, width) in [0, 1]; "
        "any batch size. Normalisation is included. It returns `boxes` (batch, 100, 4), `scores` "
        f"(batch, 100), `labels` (batch, 100) and `masks` (batch, 100, {side}, {side}) uint8, the "
        "best object first; places without an object have score 0 and label -1. Boxes are left, "
        "top, right, bottom in pixels of the input. A mask covers the whole input: enlarged to "
        f"{size}x{size}, a pixel of at least {INSIDE} belongs to the object. The input `threshold` "
        f"(1,) is the smallest score of a reported object; without it, {threshold:g} is used, "
        f"which has the highest F1 on the validation split.\n\n{code}",
    )
