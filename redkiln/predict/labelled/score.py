"""Scores a model on labelled data: a folder of classes, boxes or masks, or a table with the target.

A model that finds several labels is scored by mean average precision, as in its report.

Shapes: N samples, K classes.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from redkiln import coco
from redkiln.advice.wording import as_options
from redkiln.annotations import MASK_FOLDER, MASK_NAMES
from redkiln.cells import label_file
from redkiln.cells.file_names import FileNames
from redkiln.errors import ModelError
from redkiln.nearest import find_nearest
from redkiln.predict.compare import Z, wilson
from redkiln.predict.decoding import Decoder
from redkiln.predict.description import Description
from redkiln.predict.items import InputError, Item, Skipped
from redkiln.predict.labelled.macro_f1 import count_pairs, find_interval, macro_f1
from redkiln.predict.labelled.regions import score_regions
from redkiln.predict.labelled.several import get_separator, read_labels, score_labels
from redkiln.predict.model import Model, Prediction
from redkiln.predict.rows import RowPreparation
from redkiln.predict.verify import METRIC_NAMES, name_metric
from redkiln.views.comparison import Interval


@dataclass(frozen=True)
class DataScore:
    """How well a model does on labelled data, compared with its test split.

    Attributes:
        metric: Accuracy, or macro F1 if one class had most of the training samples; RMSE, mean
            average precision of several labels or of boxes, or mean IoU of masks.
        interval: 95 % interval of the metric: Wilson's, of a normal mean squared error, or by
            bootstrap over images; None if a bootstrap would take too long.
        recorded: The same metric of the job's test split; None if the manifest lacks it.
        recorded_interval: Its 95 % interval; None if the manifest lacks it.
        num_recorded: Samples of the job's test split; None if the manifest lacks it.
        miss: How much worse the metric is, if chance does not explain it; otherwise None.
        doubted: If only one interval explains why the metric is worse: whether it is that of
            `recorded`, or of these `data`; otherwise None.
        accuracy: Share of right answers, if the metric is macro F1 or for a model that finds
            several labels; otherwise None.
        largest_share: Accuracy of always answering the largest class, if it is macro F1.
    """

    data: str
    num_samples: int
    skipped: list[Skipped]
    metric_name: str
    metric: float
    interval: Interval | None
    recorded: float | None
    recorded_interval: Interval | None
    num_recorded: int | None
    miss: str | None
    doubted: Literal["recorded", "data"] | None
    accuracy: float | None = None
    largest_share: float | None = None


def score_data(
    model: Model,
    data: str,
    *,
    stdin: BinaryIO,
    max_drop: float,
    target: str | None = None,
    name: str | None = None,
    encoding: str | None = None,
) -> DataScore:
    """Predict labelled data and compare the metric with that of the test split.

    The metric may be worse than on the test split by chance: it is a miss only if its whole
    interval is worse than the whole interval of the manifest's metric, by more than the allowed
    drop. A small test split leaves the manifest's metric as uncertain as this one.

    Args:
        model: The model.
        data: A folder with a folder for each class, or with `labels.csv`; or a table. For a model
            that finds objects, a folder with `_annotations.coco.json`; for a segmenter, one with
            `masks` and `classes.txt`.
        stdin: Standard input, for `-`.
        max_drop: How much worse the metric may be.
        target: Column with the answers; None for that of the training table.
        name: Name of the data for people; None for `data` itself.
        encoding: Encoding of `labels.csv`; None to find it. Tables and texts have the encoding of
            the model.

    Raises:
        ModelError: The data have no labels, or none of them can be used.
    """
    known = model.description
    if known.detection is not None or known.segmentation is not None:
        return _score_regions(model, data, name=name, max_drop=max_drop)
    truths: list[Any] = []
    column = target or known.target or known.preprocessing.get("target")
    items = _collect(
        model, data, truths, stdin=stdin, column=column, target=target, encoding=encoding
    )
    rights: list[float] = []
    pairs: list[tuple[int, int]] = []
    several: list[tuple[Prediction, set[str]]] = []
    skipped: list[Skipped] = []
    # The answers come first: reading them is what appends the labels.
    top = 1 if known.thresholds is None else None
    for answer, truth in zip(model.predict_items(items, top=top), truths, strict=False):
        if isinstance(answer, Skipped):
            skipped.append(answer)
            continue
        try:
            if truth is None:
                raise ValueError(f"it has no row in {label_file.NAME}")
            if known.thresholds is not None:
                several.append((answer, read_labels(str(truth), known)))
                continue
            rights.append(_rate(answer, truth, model, column=column))
            if known.has_dominant_class:
                pairs.append(_number_classes(answer, truth, known))
        except (ValueError, InputError) as error:
            skipped.append(Skipped(answer.name, str(error)))
    if not rights and not several:
        reason = skipped[0].reason if skipped else "it is empty"
        raise ModelError(f"No sample of {name or data} can be used: {reason}")
    if several:
        metric, interval, accuracy = score_labels(several, known)
        named, num = name or data, len(several)
        found = _compare(known, named, num, skipped, metric, interval, max_drop=max_drop)
        return replace(found, accuracy=accuracy)
    if pairs:
        return _sum_up_pairs(known, name or data, pairs, skipped, max_drop=max_drop)
    return _sum_up(known, name or data, np.array(rights), skipped, max_drop=max_drop)


def _collect(
    model: Model,
    data: str,
    truths: list[Any],
    *,
    stdin: BinaryIO,
    column: str | None,
    target: str | None,
    encoding: str | None,
) -> Iterator[Item]:
    """Return the items of the data, and append the label of each to `truths`."""
    labels: dict[str, str] | None = None
    has_several = model.description.thresholds is not None
    has_file = (Path(data) / label_file.NAME).is_file()
    for item in model.preparation.find(data, stdin=stdin):
        if item.values is None and (has_several or has_file):
            if labels is None:
                separator = get_separator(model.description)
                labels = _read_label_file(
                    Path(data), separator=separator, target=target, encoding=encoding
                )
            truths.append(labels.get(item.name))
        elif item.values is None:
            truths.append(_name_class(Path(item.name), data, model.description.classes))
        elif not item.values:  # the row cannot be read
            truths.append("")
        elif column is None or column not in item.values:
            listed = ", ".join(list(item.values)[:20])
            near = find_nearest(column, list(item.values)) if column else ""
            raise ModelError(
                f"{data} has no column {column or 'with the answers'}{near or '.'} Its columns are "
                f"{listed}; name the one with the answers: --target COLUMN."
            )
        else:
            truths.append(item.values[column])
        yield item


def _name_class(path: Path, data: str, classes: Sequence[str]) -> str:
    """Return the class of an image: the outermost of its folders in `data` that is a class."""
    root = Path(data).expanduser()
    folders = path.relative_to(root).parts[:-1] if path.is_relative_to(root) else ()
    folders = folders or (path.parent.name,)
    return next((name for name in folders if name in classes), "/".join(folders))


def _read_label_file(
    folder: Path, *, separator: str, target: str | None, encoding: str | None
) -> dict[str, str]:
    """Return the cell of labels for each path of a file that `labels.csv` in a folder names.

    Args:
        folder: The folder.
        separator: Separator of the labels in a cell.
        target: Name of the column with the labels, if the user gave it.
        encoding: Encoding of the file; None to find it.

    Raises:
        ModelError: There is no such file, or it lacks a column, or a row has too many cells.
    """
    path = folder / label_file.NAME
    if not path.is_file():
        raise ModelError(
            f"{path} does not exist. Images with several labels need it, with the columns `file` "
            "and `labels`."
        )
    text = Decoder(encoding).decode(str(path), path.read_bytes(), has_names=True)
    lines = text.splitlines(keepends=True)
    head = lines[0] if lines else ""
    reader = csv.reader(lines, delimiter=label_file.find_delimiter(head), skipinitialspace=True)
    names = next(reader, [])
    # Spreadsheet programs write rows of empty cells.
    rows = [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]
    paths = [one for one in sorted(folder.rglob("*")) if one.is_file()]
    files = FileNames([one.relative_to(folder).as_posix() for one in paths])
    found = label_file.find_columns(names, [cells for _, cells in rows], files=files, target=target)
    if found.file is None or not found.are_complete:
        reason = label_file.explain_columns(names, found, files=files, target=target)
        raise ModelError(f"{path} {as_options(reason)}.")
    labels: dict[str, str] = {}
    for number, written in rows:
        extra = label_file.find_extra(names, written)
        if extra is not None:
            place = f"{path}, line {number}"
            raise ModelError(
                f"{place}: the row {label_file.explain_extra(repr(extra), separator)}."
            )
        cells = defaultdict(str, zip(names, written, strict=False))
        number_of_file = files.find(cells[found.file])
        if number_of_file is not None:
            labels[str(paths[number_of_file])] = found.read_labels(cells, separator)
    return labels


def _rate(answer: Prediction, value: Any, model: Model, *, column: str | None) -> float:
    """Return 1 or 0 for a right or wrong class, or a number's squared error.

    Args:
        answer: Answer of the model.
        value: The truth, as the data have it.
        model: The model.
        column: Column of the truth, in a table.

    Raises:
        ValueError: It is not a class.
        InputError: It is not a number.
    """
    known = model.description
    if answer.value is not None:
        assert isinstance(model.preparation, RowPreparation)
        target = model.preparation.read_target(value, column=str(column), place=answer.name)
        return (answer.value - target) ** 2
    truth = str(value).strip()
    if truth not in known.classes:
        raise ValueError(f"{truth!r} is not a class of the model ({', '.join(known.classes[:10])})")
    return float(answer.answer == truth)


def _number_classes(answer: Prediction, truth: Any, known: Description) -> tuple[int, int]:
    """Return the numbers of the true and of the answered class."""
    return known.classes.index(str(truth).strip()), known.classes.index(str(answer.answer))


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


def _sum_up_pairs(
    known: Description,
    data: str,
    pairs: list[tuple[int, int]],
    skipped: list[Skipped],
    *,
    max_drop: float,
) -> DataScore:
    """Return macro F1, and the accuracy next to what the largest class alone reaches."""
    matrix, num = count_pairs(pairs, num_classes=len(known.classes)), len(pairs)
    found = _compare(
        known,
        data,
        num,
        skipped,
        macro_f1(matrix),
        find_interval(matrix),
        max_drop=max_drop,
        name="macro_f1",
    )
    return replace(
        found,
        accuracy=float(np.trace(matrix)) / num,
        largest_share=float(matrix.sum(axis=1).max()) / num,
    )


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
    name: str | None = None,
) -> DataScore:
    """Return the score, and whether chance alone explains that it is worse than the job's."""
    name = name or name_metric(known)
    recorded = known.manifest.get("metrics", {}).get(f"test/{name}")
    theirs = known.manifest.get("intervals", {}).get(f"test/{name}")
    miss = None
    doubted: Literal["recorded", "data"] | None = None
    if recorded is not None:
        is_error = name == "rmse"
        best = (interval or (metric, metric))[0 if is_error else 1]
        their_worst = (theirs or (recorded, recorded))[1 if is_error else 0]

        def is_worse(ours: float, other: float) -> bool:
            return ours > other * (1 + max_drop) if is_error else ours < other - max_drop

        if is_worse(best, their_worst):
            miss = (
                f"{data}: the {METRIC_NAMES.get(name, name)} is {metric:.4g}{_sure(interval)}, but "
                f"{recorded:.4g}{_sure(theirs)} on the job's test split"
            )
        elif is_worse(best, recorded):
            doubted = "recorded"
        elif is_worse(metric, their_worst):
            doubted = "data"
    return DataScore(
        data=data,
        num_samples=num_samples,
        skipped=skipped,
        metric_name=name,
        metric=metric,
        interval=interval,
        recorded=recorded,
        recorded_interval=theirs and (theirs[0], theirs[1]),
        num_recorded=_count_test(known),
        miss=miss,
        doubted=doubted,
    )


def _count_test(known: Description) -> int | None:
    counts: dict[str, int] = known.manifest.get("dataset", {}).get("counts") or {}
    return counts.get("test")


def _sure(interval: Interval | None) -> str:
    return "" if interval is None else f" (95 % interval {interval[0]:.4g} to {interval[1]:.4g})"
