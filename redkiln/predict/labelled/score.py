"""Scores a model on labelled data: a folder of classes, boxes or masks, or a table with the target.

For a model that finds several labels, the accuracy is the share of samples with all labels right.

Shapes: N samples, K classes.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from redkiln import coco
from redkiln.annotations import MASK_FOLDER, MASK_NAMES
from redkiln.cells import label_file
from redkiln.errors import ModelError
from redkiln.predict.compare import Z, wilson
from redkiln.predict.description import Description
from redkiln.predict.items import Item, Skipped
from redkiln.predict.labelled.regions import score_regions
from redkiln.predict.model import Model, Prediction
from redkiln.predict.verify import METRIC_NAMES, name_metric
from redkiln.views.comparison import Interval


@dataclass(frozen=True)
class DataScore:
    """How well a model does on labelled data, compared with its test split.

    Attributes:
        metric: Accuracy, RMSE, mean average precision of boxes, or mean IoU of masks.
        interval: 95 % interval of the metric: Wilson's, of a normal mean squared error, or by
            bootstrap over images; None if a bootstrap would take too long.
        recorded: The same metric of the job's test split; None if the manifest lacks it.
        miss: Why the data contradict the manifest; None if they do not.
    """

    data: str
    num_samples: int
    skipped: list[Skipped]
    metric_name: str
    metric: float
    interval: Interval | None
    recorded: float | None
    miss: str | None


def score_data(
    model: Model,
    data: str,
    *,
    stdin: BinaryIO,
    max_drop: float,
    target: str | None = None,
    name: str | None = None,
) -> DataScore:
    """Predict labelled data and compare the metric with that of the test split.

    The metric may be worse than on the test split by chance: it counts as a miss only if its whole
    interval is worse than the manifest's metric and the allowed drop.

    Args:
        model: The model.
        data: A folder with a folder for each class, or with `labels.csv`; or a table. For a model
            that finds objects, a folder with `_annotations.coco.json`; for a segmenter, one with
            `masks` and `classes.txt`.
        stdin: Standard input, for `-`.
        max_drop: How much worse the metric may be.
        target: Column with the answers; None for that of the training table.
        name: Name of the data for people; None for `data` itself.

    Raises:
        ModelError: The data have no labels, or none of them can be used.
    """
    known = model.description
    if known.detection is not None or known.segmentation is not None:
        return _score_regions(model, data, name=name, max_drop=max_drop)
    truths: list[str | None] = []
    items = _collect(model, data, truths, stdin=stdin, column=_choose_target(known, target))
    rights: list[float] = []
    skipped: list[Skipped] = []
    # The answers come first: reading them is what appends the labels.
    for answer, truth in zip(model.predict_items(items, top=1), truths, strict=False):
        if isinstance(answer, Skipped):
            skipped.append(answer)
            continue
        try:
            if truth is None:
                raise ValueError(f"it has no row in {label_file.NAME}")
            rights.append(_rate(answer, truth, known))
        except ValueError as error:
            skipped.append(Skipped(answer.name, str(error)))
    if not rights:
        reason = skipped[0].reason if skipped else "it is empty"
        raise ModelError(f"No sample of {name or data} can be used: {reason}")
    return _sum_up(known, name or data, np.array(rights), skipped, max_drop=max_drop)


def _collect(
    model: Model, data: str, truths: list[str | None], *, stdin: BinaryIO, column: str | None
) -> Iterator[Item]:
    """Return the items of the data, and append the label of each to `truths`."""
    labels: dict[str, str] | None = None
    has_several = model.description.thresholds is not None
    has_file = (Path(data) / label_file.NAME).is_file()
    for item in model.preparation.find(data, stdin=stdin):
        if item.values is None and (has_several or has_file):
            labels = _read_label_file(Path(data)) if labels is None else labels
            path = Path(item.name)
            below = path.relative_to(data).as_posix() if path.is_relative_to(data) else path.name
            truths.append(labels.get(below, labels.get(path.name)))
        elif item.values is None:
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


def _read_label_file(folder: Path) -> dict[str, str]:
    """Return the cell of labels for each file that `labels.csv` in a folder names."""
    path = folder / label_file.NAME
    if not path.is_file():
        raise ModelError(
            f"{path} does not exist. Images with several labels need it, with the columns `file` "
            "and `labels`."
        )
    lines = path.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    head = lines[0] if lines else ""
    rows = csv.DictReader(lines, delimiter=label_file.find_delimiter(head), skipinitialspace=True)
    found = label_file.find_columns(rows.fieldnames or ())
    if found.file is None or found.labels is None:
        raise ModelError(f"The first line of {path} does not name the columns `file` and `labels`.")
    return {(row[found.file] or "").strip(): row[found.labels] or "" for row in rows}


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
    """Return the labels in a cell, with the separator of the training data or `;`.

    An empty cell has no label.
    """
    separator = known.preprocessing.get("labels_separator", label_file.SEPARATOR)
    labels = set(label_file.split_cell(cell, separator))
    if unknown := sorted(labels - set(known.classes)):
        others = set(label_file.split_cell(cell, label_file.SEPARATOR))
        if others <= set(known.classes):
            return others
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
    if known.is_regression:
        half = Z * float(rights.std()) / math.sqrt(num)
        interval = math.sqrt(max(0.0, mean - half)), math.sqrt(mean + half)
        return _compare(known, data, num, skipped, math.sqrt(mean), interval, max_drop=max_drop)
    return _compare(known, data, num, skipped, mean, wilson(mean, num), max_drop=max_drop)


def _score_regions(model: Model, data: str, *, name: str | None, max_drop: float) -> DataScore:
    folder = Path(data).expanduser()
    if not folder.is_dir():
        raise ModelError(
            f"{data} is not a folder. For a model that finds boxes or masks, name a folder of "
            f"images with {coco.NAME}, or with `{MASK_FOLDER}` and {MASK_NAMES}; or a data set of "
            "the service."
        )
    found = score_regions(model, folder)
    return _compare(
        model.description,
        name or data,
        found.num_samples,
        found.skipped,
        found.metric,
        found.interval,
        max_drop=max_drop,
    )


def _compare(
    known: Description,
    data: str,
    num_samples: int,
    skipped: list[Skipped],
    metric: float,
    interval: Interval | None,
    *,
    max_drop: float,
) -> DataScore:
    """Return the score, with the miss if its whole interval is worse than that of the job's metric.

    A small test split leaves the job's metric as uncertain as this one.
    """
    name = "accuracy" if known.thresholds is not None else name_metric(known)
    recorded = known.manifest.get("metrics", {}).get(f"test/{name}")
    theirs = known.manifest.get("intervals", {}).get(f"test/{name}")
    low, high = interval or (metric, metric)
    miss = None
    if recorded is not None:
        their_low, their_high = theirs or (recorded, recorded)
        is_worse = (
            low > their_high * (1 + max_drop) if name == "rmse" else high < their_low - max_drop
        )
        if is_worse:
            miss = (
                f"{data}: the {METRIC_NAMES.get(name, name)} is {metric:.4g}{_sure(interval)}, but "
                f"{recorded:.4g}{_sure(theirs)} on the job's test split"
            )
    return DataScore(data, num_samples, skipped, name, metric, interval, recorded, miss)


def _sure(interval: Interval | None) -> str:
    return "" if interval is None else f" (95 % interval {interval[0]:.4g} to {interval[1]:.4g})"
