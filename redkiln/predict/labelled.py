"""Scores a model on labelled data: a folder of classes, or a table with the target.

For a model that finds several labels, the accuracy is the share of samples with all labels right.

Shapes: N samples, K classes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from redkiln.errors import ModelError
from redkiln.predict.compare import Z, wilson
from redkiln.predict.description import Description
from redkiln.predict.items import Item, Skipped
from redkiln.predict.model import Model, Prediction


@dataclass(frozen=True)
class DataScore:
    """How well a model does on labelled data, compared with its test split.

    Attributes:
        metric: Accuracy, or RMSE.
        interval: 95 % interval of the metric: Wilson's, or of a normal mean squared error.
        recorded: The same metric of the job's test split; None if the manifest lacks it.
        miss: Why the data contradict the manifest; None if they do not.
    """

    data: str
    num_samples: int
    skipped: list[Skipped]
    metric_name: str
    metric: float
    interval: tuple[float, float]
    recorded: float | None
    miss: str | None


def score_data(
    model: Model, data: str, *, stdin: BinaryIO, max_drop: float, target: str | None = None
) -> DataScore:
    """Predict labelled data and compare the metric with that of the test split.

    The metric may be worse than on the test split by chance: it counts as a miss only if its whole
    interval is worse than the manifest's metric and the allowed drop.

    Args:
        model: The model.
        data: A folder with a folder for each class, or a table.
        stdin: Standard input, for `-`.
        max_drop: How much worse the metric may be.
        target: Column with the answers; None for that of the training table.

    Raises:
        ModelError: The data have no labels, or none of them can be used.
    """
    known = model.description
    truths: list[str] = []
    items = _collect(model, data, truths, stdin=stdin, column=_choose_target(known, target))
    rights: list[float] = []
    skipped: list[Skipped] = []
    # The answers come first: reading them is what appends the labels.
    for answer, truth in zip(model.predict_items(items, top=1), truths, strict=False):
        if isinstance(answer, Skipped):
            skipped.append(answer)
            continue
        try:
            rights.append(_rate(answer, truth, known))
        except ValueError as error:
            skipped.append(Skipped(answer.name, str(error)))
    if not rights:
        reason = skipped[0].reason if skipped else "it is empty"
        raise ModelError(f"No sample of {data} can be used: {reason}")
    return _sum_up(known, data, np.array(rights), skipped, max_drop=max_drop)


def _collect(
    model: Model, data: str, truths: list[str], *, stdin: BinaryIO, column: str | None
) -> Iterator[Item]:
    """Return the items of the data, and append the label of each to `truths`."""
    for item in model.preparation.find(data, stdin=stdin):
        if item.values is None:
            truths.append(Path(item.name).parent.name)
        elif not item.values:  # the row cannot be read
            truths.append("")
        elif column is None or column not in item.values:
            listed = ", ".join(list(item.values)[:20])
            raise ModelError(
                f"{data} has no column {column or 'with the answers'}. Its columns are {listed}; "
                "name the one with the answers: --target COLUMN."
            )
        else:
            truths.append(str(item.values[column]).strip())
        yield item


def _choose_target(known: Description, target: str | None) -> str | None:
    return target or known.target or known.preprocessing.get("target")


def _rate(answer: Prediction, truth: str, known: Description) -> float:
    """Return 1 or 0 for a right or wrong class or set of labels, or a number's squared error.

    Raises:
        ValueError: The label is not a class, or not a number.
    """
    if answer.labels is not None:
        return float(set(answer.labels) == _read_labels(truth, known))
    if answer.value is not None:
        try:
            return (answer.value - float(truth)) ** 2
        except ValueError:
            raise ValueError(f"the answer {truth!r} is not a number") from None
    if truth not in known.classes:
        raise ValueError(f"{truth!r} is not a class of the model ({', '.join(known.classes[:10])})")
    return float(answer.answer == truth)


def _read_labels(cell: str, known: Description) -> set[str]:
    """Return the labels in a cell; an empty one has none."""
    separator = known.preprocessing.get("labels_separator", ";")
    labels = {part.strip() for part in cell.split(separator)} - {""}
    if unknown := sorted(labels - set(known.classes)):
        raise ValueError(
            f"{unknown[0]!r} is not a class of the model ({', '.join(known.classes[:10])})"
        )
    return labels


def _sum_up(
    known: Description,
    data: str,
    rights: "np.ndarray[tuple[int], np.dtype[np.float64]]",
    skipped: list[Skipped],
    *,
    max_drop: float,
) -> DataScore:
    num, mean = len(rights), float(rights.mean())
    name = "rmse" if known.is_regression else "accuracy"
    recorded = known.manifest.get("metrics", {}).get(f"test/{name}")
    miss = None
    if known.is_regression:
        half = Z * float(rights.std()) / math.sqrt(num)
        interval = math.sqrt(max(0.0, mean - half)), math.sqrt(mean + half)
        metric = math.sqrt(mean)
        is_worse = recorded is not None and interval[0] > recorded * (1 + max_drop)
    else:
        interval, metric = wilson(mean, num), mean
        is_worse = recorded is not None and interval[1] < recorded - max_drop
    if is_worse:
        miss = (
            f"{data}: the {name} is {metric:.4g} (95 % interval {interval[0]:.4g} to "
            f"{interval[1]:.4g}), but {recorded:.4g} on the job's test split"
        )
    return DataScore(data, num, skipped, name, metric, interval, recorded, miss)
