"""Histogram-based gradient boosting of scikit-learn, grown and stored in rounds.

A checkpoint stores the trees as arrays, never as a pickle, because reading a pickle runs code. The
rest of an estimator follows from the training rows, so a restored one is fitted for one round and
then gets the stored trees. This reads and writes attributes of scikit-learn that are not public;
`constraints.txt` pins its version, and tests compare the predictions.

Shapes: N rows, K categorical columns, F numeric columns, C classes, T trees.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from threadpoolctl import threadpool_limits

from redkiln.spec.tabular import TabularOptions
from worker.export.target import Arrays
from worker.tasks.tabular.boosting.label_trees import LabelTrees
from worker.tasks.tabular.exported import CODES, NUMBERS
from worker.trainer.tables.table import Table

Features = NDArray[np.float64]
"""(N, K + F) codes of categories, then numbers; NaN if missing."""
Raw = NDArray[np.float64]
"""(N,) or (N, C') sums of the trees, for the classes that the training rows have; (N, C) if a row
can have several labels."""

MOST_CATEGORIES = 255
"""Categories of a column that scikit-learn distinguishes; all rarer ones count as the last."""
SMALLEST_LOG = -16.0
"""Logarithm of the probability of a class without training rows, about 1e-7."""
SMALL_CELLS = 500_000
"""Tables with fewer values train in one thread: threads would mostly wait for each other."""
LOSSES = {"mse": "squared_error", "mae": "absolute_error"}


@dataclass(frozen=True)
class TreeRows:
    """The training rows, and the validation rows if there are any.

    Attributes:
        targets: Labels; (N, labels) 0 or 1 if a row can have several; or standardised values.
        weights: Weight of each training row, and of each label of it if it can have several; None
            if all count the same.
    """

    features: Features
    targets: NDArray[Any]
    validation: Features
    weights: NDArray[np.float64] | None = None


ScoreRaw = Callable[[Raw], dict[str, float]]
"""Scores the sums of the trees for the validation rows."""


def read_features(table: Table, rows: NDArray[np.int64]) -> Features:
    """Return the values of some rows as the trees read them."""
    return join_features(table.numbers[rows], table.codes[rows])


def join_features(numbers: NDArray[np.float32], codes: NDArray[Any]) -> Features:
    """Join codes (N, K), -1 if missing, and numbers (N, F), NaN if missing."""
    known = np.minimum(codes, MOST_CATEGORIES - 1).astype(np.float64)
    known[codes < 0] = np.nan
    return np.concatenate([known, numbers.astype(np.float64)], axis=1)


def join_inputs(inputs: Arrays) -> Features:
    """Return a model's inputs, which lack the kinds of columns that the table does not have."""
    num = len(next(iter(inputs.values())))
    numbers = inputs.get(NUMBERS, np.empty((num, 0), np.float32))
    return join_features(numbers, inputs.get(CODES, np.empty((num, 0), np.int64)))


def build_trees(
    options: TabularOptions,
    *,
    num_categorical: int,
    num_numeric: int,
    loss: str | None,
    seed: int,
    num_labels: int | None = None,
) -> Any:
    """Return an estimator without trees.

    Args:
        options: Options of the spec.
        num_categorical: K.
        num_numeric: F.
        loss: Loss of a regression, a key of LOSSES; None for classes.
        seed: Seed of the choice of rows that bins are made from.
        num_labels: Number of labels that a row can have several of; None for one class or a value.
    """
    is_category = [True] * num_categorical + [False] * num_numeric
    settings = {
        "learning_rate": options.learning_rate,
        "max_leaf_nodes": options.leaves,
        "min_samples_leaf": options.min_samples_leaf,
        "l2_regularization": options.l2,
        "categorical_features": is_category if num_categorical else None,
        "warm_start": True,
        # Records the training loss of each round. It never stops: the trainer decides that.
        "early_stopping": True,
        "validation_fraction": None,
        "n_iter_no_change": 10**9,
        "random_state": seed,
    }
    if num_labels is not None:
        return LabelTrees([HistGradientBoostingClassifier(**settings) for _ in range(num_labels)])
    if loss is None:
        return HistGradientBoostingClassifier(**settings)
    return HistGradientBoostingRegressor(loss=LOSSES[loss], **settings)


def predict_raw(model: Any, features: Features) -> Raw:
    """Return the sums of all trees."""
    with threadpool_limits(limits=1):
        is_classifier = hasattr(model, "decision_function")
        raw: Raw = (model.decision_function if is_classifier else model.predict)(features)
    return raw


def to_logits(raw: Raw, *, known: NDArray[np.int64], num_classes: int) -> NDArray[np.float64]:
    """Return logs of probabilities (N, C).

    Args:
        raw: Sums of the trees; for two known classes (N,), that of the second one.
        known: Labels of the classes that the training rows have.
        num_classes: C.
    """
    sums = np.stack([np.zeros_like(raw), raw], axis=1) if raw.ndim == 1 else raw
    shifted = sums - sums.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    found = np.full((len(logs), num_classes), SMALLEST_LOG)
    found[:, known] = logs
    return found


class BoostedTrees:
    """A `worker.trainer.estimators.setup.Estimator`.

    Attributes:
        rows: The rows to train on.
        threads: CPU threads that these rows are worth.

    Args:
        model: Result of `build_trees`.
        rows: The rows to train on.
        score: Scores the validation rows.
        threads: Most CPU threads.
    """

    def __init__(self, model: Any, rows: TreeRows, *, score: ScoreRaw, threads: int) -> None:
        self.model = model
        self.num_rounds = 0
        self.rows = rows
        self._score = score
        self.threads = threads if rows.features.size >= SMALL_CELLS else 1

    def grow(self, rounds: int) -> list[dict[str, float]]:
        """Add rounds; return the losses and validation metrics of each of them."""
        first = self.num_rounds
        self._fit(first + rounds)
        # The first score is that of the model without trees; a half squared error is recorded.
        factor = 2.0 if self.model.get_params().get("loss") == "squared_error" else 1.0
        scores = self.model.train_score_[first + 1 :].reshape(rounds, -1).mean(axis=1)
        losses = (-factor * scores).tolist()
        found: list[dict[str, float]] = [{"train/loss": loss} for loss in losses]
        if len(self.rows.validation):
            for metrics, raw in zip(found, self._stages(first), strict=True):
                metrics.update(self._score(raw))
        return found

    def cut(self, rounds: int) -> None:
        """Keep only the first rounds."""
        self.model._predictors = self.model._predictors[:rounds]
        self.model.train_score_ = self.model.train_score_[: rounds + 1]
        self.num_rounds = rounds

    def tensors(self, rounds: int) -> dict[str, torch.Tensor]:
        """Return the trees of the first rounds."""
        stored = pack_trees([tree for row in self.model._predictors[:rounds] for tree in row])
        stored["train_score"] = torch.from_numpy(self.model.train_score_[: rounds + 1].copy())
        return stored

    def load(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Continue from stored trees."""
        self._fit(1)
        put_trees(self.model, tensors)
        self.num_rounds = len(self.model._predictors)

    def count(self, rounds: int) -> int:
        """Return the number of nodes of the first rounds."""
        return sum(len(tree.nodes) for row in self.model._predictors[:rounds] for tree in row)

    def _fit(self, rounds: int) -> None:
        self.model.set_params(max_iter=rounds)
        with threadpool_limits(limits=self.threads):
            self.model.fit(self.rows.features, self.rows.targets, sample_weight=self.rows.weights)
        self.num_rounds = rounds

    def _stages(self, first: int) -> Iterator[Raw]:
        """Yield the sums for the validation rows after each round from this one on."""
        is_classifier = hasattr(self.model, "staged_decision_function")
        stages = self.model.staged_decision_function if is_classifier else self.model.staged_predict
        with threadpool_limits(limits=1):
            for place, raw in enumerate(stages(self.rows.validation)):
                if place >= first:
                    yield raw


def pack_trees(trees: list[Any]) -> dict[str, torch.Tensor]:
    """Return fitted trees as tensors: their nodes and sets of categories, one after the other."""
    nodes = np.concatenate([tree.nodes for tree in trees])
    sets = np.concatenate([tree.raw_left_cat_bitsets for tree in trees]).reshape(-1, 8)
    binned = np.concatenate([tree.binned_left_cat_bitsets for tree in trees]).reshape(-1, 8)
    stored = {
        "num_nodes": np.array([len(tree.nodes) for tree in trees]),
        "num_sets": np.array([len(tree.raw_left_cat_bitsets) for tree in trees]),
        "raw_sets": sets.astype(np.int64),
        "binned_sets": binned.astype(np.int64),
    }
    for name in PREDICTOR_RECORD_DTYPE.names:
        column = nodes[name]
        stored[f"node_{name}"] = column.astype(np.float64 if column.dtype.kind == "f" else np.int64)
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in stored.items()}


def put_trees(model: Any, tensors: Mapping[str, torch.Tensor]) -> None:
    """Replace the trees of an estimator that was fitted on the same rows by stored ones."""
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    nodes = np.empty(len(arrays["node_value"]), PREDICTOR_RECORD_DTYPE)
    for name in PREDICTOR_RECORD_DTYPE.names:
        nodes[name] = arrays[f"node_{name}"]
    ends, set_ends = arrays["num_nodes"].cumsum()[:-1], arrays["num_sets"].cumsum()[:-1]
    parts = zip(
        np.split(nodes, ends),
        np.split(arrays["binned_sets"].astype(np.uint32), set_ends),
        np.split(arrays["raw_sets"].astype(np.uint32), set_ends),
        strict=True,
    )
    trees = [TreePredictor(*(np.ascontiguousarray(part) for part in tree)) for tree in parts]
    each = model.n_trees_per_iteration_
    model._predictors = [trees[place : place + each] for place in range(0, len(trees), each)]
    model.train_score_ = arrays["train_score"].copy()
