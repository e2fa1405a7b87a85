"""Predictions as one JSON document, which the command line prints and the service returns."""

import base64
from collections.abc import Sequence
from typing import Any

from redkiln.predict.items import Skipped
from redkiln.predict.masks.coding import Mask
from redkiln.predict.masks.drawing import write_png
from redkiln.predict.model import Model, Prediction

OF_OBJECT = ("other", "object")
"""Classes of the mask of an object."""


def build_document(
    found: Sequence[Prediction], skipped: Sequence[Skipped], model: Model, *, name: str
) -> dict[str, Any]:
    """Return predictions with what is known about the model.

    Args:
        found: Answers.
        skipped: Inputs that could not be used.
        model: Model that gave the answers.
        name: Name of the model's file for the reader.
    """
    known = model.description
    return {
        "model": name,
        "job_id": known.job_id,
        "task": known.task,
        "verified": known.verified,
        "predictions": [{"input": one.name, **_describe(one, known.classes)} for one in found],
        "skipped": [{"input": one.name, "reason": one.reason} for one in skipped],
    }


def _describe(one: Prediction, classes: Sequence[str]) -> dict[str, Any]:
    if one.boxes is not None:
        boxes = [
            {
                "class": box.class_name,
                "score": box.score,
                "box": list(box.box),
                **(
                    {} if box.mask is None else {"mask": _write_mask(box.mask, ("other", "object"))}
                ),
            }
            for box in one.boxes
        ]
        return {"boxes": boxes}
    if one.mask is not None:
        return {
            "pixels": [{"class": name, "share": share} for name, share in one.scores],
            "mask": _write_mask(one.mask, classes),
        }
    if one.value is not None:
        return {"value": one.value}
    return {
        "class" if one.labels is None else "labels": one.answer,
        "scores": [{"class": name, "score": score} for name, score in one.scores],
    }


def _write_mask(mask: Mask, classes: Sequence[str]) -> dict[str, Any]:
    height, width = mask.shape
    png = base64.b64encode(write_png(mask, classes)).decode()
    return {"width": width, "height": height, "png": png}
