"""Sample predictions of a segmenter: pictures with the true and the found mask side by side."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from redkiln.annotations import IGNORED
from redkiln.predict.masks.drawing import overlay
from redkiln.predict.masks.scores import count_pixels, score_counts
from worker.trainer.insight.preview import ShowSamples
from worker.trainer.insight.shown import Shown, spread_rows
from worker.trainer.scoring.evaluate import evaluating
from worker.trainer.segmentation.network import SegmenterNetwork
from worker.trainer.segmentation.samples import SegmentationSamples

RIGHT = 0.9
"""Mean IoU from which an image counts as right in a preview."""


def build_segmentation_preview(
    segmenter: SegmenterNetwork,
    samples: SegmentationSamples,
    *,
    autocast: Callable[[], torch.autocast],
) -> ShowSamples:
    """Return a function that shows some validation images, or training ones without a split.

    The true mask is on the left, the found one on the right.
    """
    split = samples.images.rows["validation" if samples.num("validation") else "train"]
    chosen = torch.tensor(spread_rows(split.tolist()))

    def show() -> list[Shown]:
        images, masks = samples.get_batch(chosen)
        with evaluating(segmenter), autocast():
            found = segmenter(images).argmax(dim=1).to(torch.uint8).cpu().numpy()
        pixels = samples.images.get_planes(chosen).permute(0, 2, 3, 1).cpu().numpy()
        classes = samples.images.classes
        return [
            _show(*one, classes) for one in zip(pixels, masks.cpu().numpy(), found, strict=True)
        ]

    return show


def draw_pair(
    image: NDArray[np.uint8],
    truth: NDArray[np.uint8],
    found: NDArray[np.uint8],
    *,
    num_classes: int,
) -> NDArray[np.uint8]:
    """Return an image (S, S, C) twice, with its true and its found mask, as (S, 2 S, 3)."""
    both = [overlay(image, mask, num_classes=num_classes) for mask in (truth, found)]
    return np.concatenate(both, axis=1)


def name_pixels(mask: NDArray[np.uint8], classes: Sequence[str]) -> str:
    """Return the classes of a mask other than the first, with their share of the pixels."""
    counts = np.bincount(mask[mask != IGNORED].reshape(-1), minlength=len(classes))
    total = max(1, int(counts.sum()))
    named = [f"{classes[k]} {counts[k] / total:.0%}" for k in range(1, len(classes)) if counts[k]]
    return ", ".join(named) or classes[0]


def _show(
    image: NDArray[np.uint8],
    truth: NDArray[np.uint8],
    found: NDArray[np.uint8],
    classes: Sequence[str],
) -> Shown:
    iou = score_counts(count_pixels(found, truth, len(classes)))["miou"]
    return Shown(
        truth=name_pixels(truth, classes),
        predicted=name_pixels(found, classes),
        is_right=iou >= RIGHT,
        image=draw_pair(image, truth, found, num_classes=len(classes)),
    )
