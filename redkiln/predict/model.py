"""An exported model that predicts what a user names.

Shapes: B batch, K classes.
"""

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from redkiln.errors import ModelError
from redkiln.predict.boxes.joined import OUTPUTS, THRESHOLD, join_outputs, list_found
from redkiln.predict.boxes.located import LocatedPreparation
from redkiln.predict.description import MANIFEST, Description, check_digest, describe
from redkiln.predict.instances.joined import MASKS
from redkiln.predict.items import InputError, Item, NoInputError, Preparation, Skipped
from redkiln.predict.label_metrics import decide
from redkiln.predict.masks.outputs import CLASSES
from redkiln.predict.rows import RowPreparation
from redkiln.predict.session import open_session, run_session

BATCH = 32
"""Samples that the model gets at once."""
READ_AHEAD = 3
"""Batches that are read while the model runs."""
T = TypeVar("T")
Input = str | Path | Mapping[str, Any]
"""What a user names: a path, a folder, a pattern, a text, or a row by its columns."""


@dataclass(frozen=True)
class FoundBox:
    """An object in an image.

    Attributes:
        box: Left, top, right and bottom in pixels of the upright image.
        mask: (H, W) 1 for each pixel of the object in the upright image, from a model that finds
            masks; otherwise None.
    """

    class_name: str
    score: float
    box: tuple[float, float, float, float]
    mask: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Prediction:
    """The answer for one input.

    Attributes:
        name: Name of the input.
        scores: Classes and their probabilities, the answer first, then the highest; empty for a
            regression.
        value: The predicted number of a regression; None for a classifier.
        labels: The classes whose probability reaches their threshold, the most probable first, if
            an input can have several; otherwise None.
        boxes: The objects that a detector found, the most certain first; otherwise None.
        mask: (H, W) the class of each pixel of the upright image, as a place in the model's
            classes, from a segmenter; otherwise None. `scores` are then shares of the pixels.
    """

    name: str
    scores: list[tuple[str, float]]
    value: float | None = None
    labels: list[str] | None = None
    boxes: list[FoundBox] | None = None
    mask: NDArray[np.uint8] | None = None

    @property
    def answer(self) -> str | float | list[str]:
        """The class, all labels, the classes of all objects or pixels, or the number."""
        if self.boxes is not None:
            return [one.class_name for one in self.boxes]
        if self.labels is not None:
            return self.labels
        if self.mask is not None:
            return [name for name, _ in self.scores]
        return self.scores[0][0] if self.value is None else self.value


class Model:
    """An exported model, loaded with ONNX Runtime.

    Args:
        path: The ONNX file; its manifest and its tokenizer are in the same folder.
        threads: Threads that read inputs and run the model; 0 for one on each core.
        column: Column of a table that has the texts, for a model of texts.
        encoding: Encoding of tables and of files of texts; by default Unicode or Windows-1252.
        threshold: Probability from which the rarer of two classes is the answer; `auto` is the one
            that was chosen on the validation split. None: the most probable class is the answer.
            For a detector, the smallest score of a box; None and `auto`: the model's own.

    Raises:
        ModelError: The file cannot be used.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        threads: int = 0,
        column: str | None = None,
        encoding: str | None = None,
        threshold: float | Literal["auto"] | None = None,
    ) -> None:
        self.path = Path(path)
        self._threads = threads or _count_cores()
        self.session = open_session(self.path, threads=self._threads)
        metadata = self.session.get_modelmeta().custom_metadata_map
        self.description: Description = describe(self.path, metadata)
        check_digest(self.path, self.description.manifest)
        self.preparation = open_preparation(self.description, column=column, encoding=encoding)
        self.threshold = threshold
        self._choice: tuple[int, float] | None = None
        if self.description.detection is None and threshold is not None:
            self._choice = find_threshold(self.description, threshold)

    @property
    def least_score(self) -> float:
        """Smallest score of a reported object, of a model that finds objects."""
        assert self.description.detection is not None
        if isinstance(self.threshold, float):
            return self.threshold
        return float(self.description.detection["threshold"])

    @property
    def is_threshold_usual(self) -> bool:
        """Whether the threshold `auto` decides as without a threshold."""
        return self.threshold == "auto" and self._choice is not None and self._choice[1] == 0.5

    def predict(
        self,
        arguments: Input | Iterable[Input],
        *,
        batch_size: int = BATCH,
        top: int | None = None,
    ) -> Iterator[Prediction | Skipped]:
        """Return a prediction for each input, in order, and what could not be used.

        Args:
            arguments: Paths, folders, patterns, texts, rows as mappings of columns to values, or
                `-` for stdin; or one of them.
            batch_size: Samples that the model gets at once.
            top: Number of classes to return for each input; None for all.

        Raises:
            ModelError: Nothing can be read from an argument, or a row has other columns than the
                model.
        """
        if isinstance(arguments, str | Path | Mapping):
            arguments = [arguments]
        self.preparation.forget()
        items = self.find_items(arguments, stdin=sys.stdin.buffer)
        return self.predict_items(items, batch_size=batch_size, top=top)

    @property
    def notes(self) -> list[str]:
        """What the user should know about the inputs of the last call, as unknown categories."""
        return self.preparation.notes

    def find_items(self, arguments: Iterable[Input], *, stdin: BinaryIO) -> Iterator[Item]:
        """Return the samples that some arguments stand for; see `predict`.

        Of several arguments, one that stands for nothing is a sample that cannot be read.
        """
        is_only = isinstance(arguments, Sequence) and len(arguments) == 1
        for number, argument in enumerate(arguments, 1):
            if isinstance(argument, Mapping):
                yield self.preparation.find_row(argument, name=f"row {number}")
                continue
            try:
                yield from self.preparation.find(str(argument), stdin=stdin)
            except NoInputError as error:
                if is_only:
                    raise
                yield error.as_item(str(argument))

    def predict_items(
        self, items: Iterable[Item], *, batch_size: int = BATCH, top: int | None = None
    ) -> Iterator[Prediction | Skipped]:
        """Return a prediction for each item, in order; see `predict`."""
        for batch in self.read_batches(items, batch_size=batch_size):
            usable = [(name, sample) for name, sample in batch if not isinstance(sample, Skipped)]
            answers = self._answer(usable, top=top)
            for _, sample in batch:
                yield sample if isinstance(sample, Skipped) else next(answers)

    def read_batches(
        self, items: Iterable[Item], *, batch_size: int = BATCH
    ) -> Iterator[list[tuple[str, Any]]]:
        """Return batches of names and prepared samples, in order; `Skipped` if one is unusable."""
        return _take(self._read(items, batch_size), batch_size)

    def run(self, feed: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return the model's outputs for some inputs.

        They are logits (B, K), probabilities (B, K) if inputs can have several labels, or values
        (B,).
        """
        outputs: NDArray[np.float32] = run_session(self.session, feed, self.description.output)
        return outputs

    def _read(self, items: Iterable[Item], batch_size: int) -> Iterator[tuple[str, Any]]:
        """Read items in order; in threads and ahead of the model if that takes long."""
        if not self.preparation.is_costly:
            yield from ((item.name, _read_item(item)) for item in items)
            return
        waiting: deque[tuple[str, Future[Any]]] = deque()
        remaining = iter(items)
        with ThreadPoolExecutor(self._threads, thread_name_prefix="read") as pool:
            try:
                for item in remaining:
                    waiting.append((item.name, pool.submit(_read_item, item)))
                    if len(waiting) >= READ_AHEAD * batch_size:
                        name, done = waiting.popleft()
                        yield name, done.result()
                while waiting:
                    name, done = waiting.popleft()
                    yield name, done.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _answer(self, usable: list[tuple[str, Any]], *, top: int | None) -> Iterator[Prediction]:
        if not usable:
            return
        feed = self.preparation.feed([sample for _, sample in usable])
        if self.description.detection is not None:
            yield from self._find_boxes(usable, feed, top=top)
            return
        if self.description.segmentation is not None:
            yield from self._find_masks(usable, feed, top=top)
            return
        outputs = self.run(feed)
        if self.description.is_regression:
            for (name, _), value in zip(usable, outputs, strict=True):
                yield Prediction(name, [], float(value))
            return
        classes = self.description.classes
        if self.description.thresholds is not None:
            yield from self._find_labels(usable, outputs, top=top)
            return
        for (name, _), odds in zip(usable, softmax(outputs), strict=True):
            best = self._order(odds)[:top]
            yield Prediction(name, [(classes[place], float(odds[place])) for place in best])

    def _order(self, odds: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the places of the classes (K,), the answer first."""
        if self._choice is None:
            return np.argsort(-odds, kind="stable")
        place, least = self._choice
        return np.array([place, 1 - place] if odds[place] >= least else [1 - place, place])

    def _find_boxes(
        self, usable: list[tuple[str, Any]], feed: dict[str, NDArray[Any]], *, top: int | None
    ) -> Iterator[Prediction]:
        preparation, classes = self.preparation, self.description.classes
        assert isinstance(preparation, LocatedPreparation)
        if isinstance(self.threshold, float):
            feed = {**feed, THRESHOLD: np.array([self.threshold], np.float32)}
        has_masks = self.description.mask_square is not None
        names = [*OUTPUTS, *([MASKS] if has_masks else [])]
        arrays = self.session.run(names, feed)
        joined = join_outputs(arrays[: len(OUTPUTS)])
        for place, ((name, sample), found) in enumerate(
            zip(usable, list_found(joined), strict=True)
        ):
            here, is_there = preparation.locate(found, sample)
            rows = zip(here.labels.tolist(), here.scores.tolist(), here.boxes.tolist(), strict=True)
            boxes = [
                FoundBox(classes[label], score, (left, upper, right, lower))
                for label, score, (left, upper, right, lower) in rows
            ][:top]
            if has_masks:
                masks = arrays[-1][place][: len(found.labels)][is_there][:top]
                fitted = preparation.fit_objects(masks, sample)
                boxes = [replace(box, mask=mask) for box, mask in zip(boxes, fitted, strict=True)]
            yield Prediction(name, [], boxes=boxes)

    def _find_masks(
        self, usable: list[tuple[str, Any]], feed: dict[str, NDArray[Any]], *, top: int | None
    ) -> Iterator[Prediction]:
        preparation, classes = self.preparation, self.description.classes
        assert isinstance(preparation, LocatedPreparation)
        (found,) = self.session.run([CLASSES], feed)
        for (name, sample), square in zip(usable, found, strict=True):
            mask = preparation.fit_mask(square, sample)
            shares = np.bincount(mask.reshape(-1), minlength=len(classes)) / mask.size
            best = [place for place in np.argsort(-shares, kind="stable") if shares[place]]
            scores = [(classes[place], float(shares[place])) for place in best[:top]]
            yield Prediction(name, scores, mask=mask)

    def _find_labels(
        self, usable: list[tuple[str, Any]], probabilities: NDArray[np.float32], *, top: int | None
    ) -> Iterator[Prediction]:
        classes = self.description.classes
        is_label = decide(probabilities, self.description.thresholds)
        for (name, _), shares, found in zip(usable, probabilities, is_label, strict=True):
            best = np.argsort(-shares, kind="stable")
            scores = [(classes[place], float(shares[place])) for place in best[:top]]
            labels = [classes[place] for place in best if found[place]]
            yield Prediction(name, scores, labels=labels)


def find_threshold(
    description: Description, threshold: float | Literal["auto"]
) -> tuple[int, float]:
    """Return the place of the rarer of two classes, and from which probability it is the answer.

    Raises:
        ModelError: The model has not two classes, or its manifest names no threshold.
    """
    path, classes = description.path, description.classes
    is_single = description.thresholds is None and description.segmentation is None
    if len(classes) != 2 or not is_single:
        raise ModelError(
            f"--threshold applies only to models that choose one of two classes; {path} does not, "
            "so omit it."
        )
    offered = description.manifest.get("threshold") or {}
    if offered.get("class_name") not in classes:
        raise ModelError(
            f"The job of {path} chose no threshold, which takes validation samples of both "
            "classes; omit the threshold."
            if description.manifest
            else f"{path} has no {MANIFEST} next to it, which names its threshold. Use the whole "
            "folder of results, or omit the threshold."
        )
    least = float(offered["probability"]) if threshold == "auto" else threshold
    return classes.index(offered["class_name"]), least


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Turn (B, K) logits into probabilities."""
    odds = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
    return probabilities


def open_preparation(
    description: Description, *, column: str | None = None, encoding: str | None = None
) -> Preparation:
    """Return what turns a user's inputs into those of a model.

    Raises:
        ModelError: The model is of a task that cannot be predicted here.
    """
    known = description.preprocessing
    if "tokenizer" in known:
        from redkiln.predict.texts import TextPreparation

        folder = description.path.parent
        tokenizer = folder / Path(known["tokenizer"]).name
        if tokenizer.is_file() and known.get("interface") != "embedded":
            check_digest(tokenizer, description.manifest)
        return TextPreparation(known, folder=folder, column=column, encoding=encoding)
    if column is not None:
        raise ModelError(f"--column is for models of texts; {description.path} is not one.")
    if description.detection is not None or description.segmentation is not None:
        return LocatedPreparation(known)
    if "resize" in known:
        from redkiln.predict.images import ImagePreparation

        return ImagePreparation(known)
    if isinstance(known.get("inputs"), list):
        leaks = description.manifest.get("dataset", {}).get("leaks", [])
        return RowPreparation(known, encoding=encoding, leaks=leaks)
    raise ModelError(
        f"{description.path} is a model of the task {description.task!r}, whose inputs this "
        "version cannot prepare. Run it with the code in its report.md."
    )


def _read_item(item: Item) -> Any:
    try:
        return item.read()
    except InputError as error:
        return Skipped(item.name, str(error))


def _take(items: Iterator[T], num: int) -> Iterator[list[T]]:
    while batch := list(islice(items, num)):
        yield batch


def _count_cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
