"""Compares two sets of outputs for the same samples, and describes their difference.

Shapes: N samples, K classes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redkiln.annotations import IGNORED
from redkiln.predict.boxes.joined import list_found, list_truth
from redkiln.predict.boxes.matching import find_agreement, find_score_differences
from redkiln.predict.boxes.scores import score_detections
from redkiln.predict.label_metrics import decide, score_once
from redkiln.predict.masks.scores import score_masks

Floats = NDArray[np.floating[Any]]
Z = 1.959964
"""97.5 % quantile of the normal distribution."""
ALIKE = 0.02
"""Part of the largest output that may remain when a suspicion explains a difference."""
FOLLOWS = 0.5
"""Correlation from which outputs are those of a similar network."""
MOST_DISTANCES = 20_000_000
"""Distances in memory while a class's output is looked for among all classes."""


@dataclass(frozen=True)
class OutputDifference:
    """How far outputs are from those of torch.

    Attributes:
        relative: Largest difference, divided by the largest output of torch.
        max_abs: Largest difference.
        mean_abs: Mean difference.
        agreement: Share of samples with the same class, or labels; None for a regression.
    """

    relative: float
    max_abs: float
    mean_abs: float
    agreement: float | None


def compare(
    outputs: Floats, reference: Floats, *, thresholds: Sequence[float] | None = None
) -> OutputDifference:
    """Return the difference of two (N, K) or (N,) arrays; what is not finite counts as infinite.

    Boxes (N, M, 6) of both are matched, and the scores of partners are compared.

    Args:
        outputs: Outputs of the file.
        reference: Torch's outputs for the same samples.
        thresholds: (K,) probability from which a class is a label, if a sample can have several.
    """
    if reference.dtype == np.uint8:
        return _compare_classes(outputs, reference)
    if reference.dtype == object or reference.ndim == 3:
        return _compare_boxes(outputs, reference)
    distance = np.abs(outputs.astype(np.float64) - reference.astype(np.float64))
    if not np.isfinite(distance).all():
        distance = np.full_like(distance, np.inf)
    scale = max(float(np.abs(reference).max()), 1e-12)
    same = None
    if thresholds is not None:
        same = float((decide(outputs, thresholds) == decide(reference, thresholds)).all(1).mean())
    elif reference.ndim == 2:
        same = float((outputs.argmax(axis=1) == reference.argmax(axis=1)).mean())
    largest = float(distance.max())
    return OutputDifference(largest / scale, largest, float(distance.mean()), same)


def is_finite(outputs: Floats) -> bool:
    """Return whether all outputs are finite numbers; of objects with masks, boxes and scores."""
    if outputs.dtype != object:
        return bool(np.isfinite(outputs).all())
    return all(
        np.isfinite(one.boxes).all() and np.isfinite(one.scores).all()
        for one in list_found(outputs)
    )


def _compare_boxes(outputs: Floats, reference: Floats) -> OutputDifference:
    if not is_finite(outputs):
        return OutputDifference(np.inf, np.inf, np.inf, 0.0)
    ours, theirs = outputs, reference
    if reference.dtype != object:
        ours, theirs = outputs.astype(np.float32), reference.astype(np.float32)
    distance = find_score_differences(ours, theirs)
    largest = float(distance.max())
    return OutputDifference(largest, largest, float(distance.mean()), find_agreement(ours, theirs))


def _compare_classes(outputs: Floats, reference: Floats) -> OutputDifference:
    """Return the share of other classes as the difference of masks (N, S, S)."""
    other = (outputs != reference).mean(axis=(1, 2))
    return OutputDifference(
        float(other.max()), float(other.max()), float(other.mean()), 1 - float(other.mean())
    )


def score(outputs: Floats, targets: NDArray[Any]) -> float:
    """Return the accuracy of (N, K) logits, or the RMSE of (N,) values.

    For (N, K) targets, 1 for each of several labels, and for objects (N, G, 5), it is the mean
    average precision, of masks if the objects have some; for masks (N, S, S), the mean IoU.
    """
    if outputs.dtype == object:
        found, truth = list_found(outputs), list_truth(targets)
        num_classes = 1 + max(int(one.labels.max(initial=0)) for one in (*found, *truth))
        return score_detections(found, truth, num_classes=num_classes, kind="segm")["map"]
    if outputs.dtype == np.uint8:
        num_classes = 1 + int(max(outputs.max(), targets[targets != IGNORED].max(initial=0)))
        return score_masks(outputs.astype(np.uint8), targets, num_classes)["miou"]
    if targets.ndim == 3:
        found, truth = list_found(outputs.astype(np.float32)), list_truth(targets)
        num_classes = 1 + max(int(targets[..., 0].max()), 0)
        return score_detections(found, truth, num_classes=num_classes)["map"]
    if targets.ndim == 2:
        return score_once(outputs, targets).get("map", 0.0)
    if outputs.ndim == 2:
        return float((outputs.argmax(axis=1) == targets).mean())
    return float(np.sqrt(np.mean((outputs.astype(np.float64) - targets) ** 2)))


def find_drop(outputs: Floats, reference: Floats, targets: NDArray[Any]) -> float:
    """Return how much accuracy, or average precision, is lost; or how much the RMSE grows."""
    found, known = score(outputs, targets), score(reference, targets)
    if reference.ndim > 1 or reference.dtype == object:
        return known - found
    return (found - known) / max(known, 1e-6 * float(np.std(targets)), 1e-12)


def wilson(share: float, num: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of `num` samples.

    Source: Wilson (1927), Probable inference, the law of succession, and statistical inference.
    """
    centre = share + Z**2 / (2 * num)
    half = Z * math.sqrt(share * (1 - share) / num + Z**2 / (4 * num**2))
    scale = 1 + Z**2 / num
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def suspect(outputs: Floats, reference: Floats, *, singles: Floats) -> Iterator[str]:
    """Name causes that explain how outputs differ; call it only if they differ too much.

    Args:
        outputs: (N, K) or (N,) outputs of the file in large batches.
        reference: Torch's outputs for the same samples.
        singles: (S, ...) outputs of the file for the first S samples, one at a time.
    """
    if not is_finite(outputs):
        yield "some outputs are not finite numbers"
        return
    if reference.ndim == 3 or reference.dtype == object:
        return  # boxes, or masks
    scale = max(float(np.abs(reference).max()), 1e-12)
    alone = float(np.abs(singles - outputs[: len(singles)]).max()) / scale
    if alone > ALIKE:
        yield (
            f"a sample's outputs depend on the other samples of its batch (by {alone:.0%} of the "
            "largest output): batch normalisation was exported in training mode"
        )
    if reference.ndim != 2 or len(reference) < 2:
        return
    found = [*_suspect_order(outputs, reference, scale), *_suspect_shift(outputs, reference, scale)]
    yield from found
    if alone <= ALIKE and not found:
        yield from _suspect_weights(outputs, reference, scale)


def _suspect_shift(outputs: Floats, reference: Floats, scale: float) -> Iterator[str]:
    shift = (outputs - reference).mean(axis=0)
    rest = float(np.abs(outputs - reference - shift).max()) / scale
    if rest < ALIKE and float(np.abs(shift).max()) / scale > ALIKE:
        listed = ", ".join(f"{value:+.2g}" for value in shift[:5])
        yield f"every class's output is shifted by a constant ({listed}): a bias is missing"


def _suspect_weights(outputs: Floats, reference: Floats, scale: float) -> Iterator[str]:
    """Tell outputs that are torch's times a factor from those that only follow torch's."""
    centred = outputs - outputs.mean(axis=0)
    expected = reference - reference.mean(axis=0)
    spread = float((expected**2).sum() * (centred**2).sum()) ** 0.5
    if spread < 1e-12:
        return
    factor = float((centred * expected).sum() / (expected**2).sum())
    correlation = float((centred * expected).sum()) / spread
    if float(np.abs(centred - factor * expected).max()) / scale < ALIKE:
        yield (
            f"the outputs are torch's multiplied by {factor:.3g} and shifted by a constant: the "
            "inputs are normalised with another mean or std"
        )
    elif correlation > FOLLOWS:
        yield (
            f"the outputs rise and fall with torch's (correlation {correlation:.2f}) but are not "
            "equal: the weights are those of another epoch, or the inputs have another mean or std"
        )


def _suspect_order(outputs: Floats, reference: Floats, scale: float) -> Iterator[str]:
    num_classes = reference.shape[1]
    some = slice(max(2, MOST_DISTANCES // num_classes**2))
    distances = np.abs(outputs[some].T[:, None] - reference[some].T[None]).max(axis=2)
    order = distances.argmin(axis=1)
    if len(set(order.tolist())) < num_classes or bool((order == np.arange(num_classes)).all()):
        return
    if float(np.abs(outputs - reference[:, order]).max()) / scale < ALIKE:
        listed = ", ".join(map(str, order[:10].tolist()))
        yield f"the outputs agree if the classes are in the order {listed}"
