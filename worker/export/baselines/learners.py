"""Trains linear models and gradient-boosted trees of scikit-learn within a time.

Shapes: N training samples, M test samples, F features, C classes.
"""

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.export.baselines.baseline import Fitted, Skipped

MOST_CELLS = 4_000_000
"""Most features times samples of a baseline's training data, which bounds its first rounds."""
LEAST_ROWS = 50
MOST_CLASSES = 100
MOST_TREE_LABELS = 30
"""Most labels that trees are trained for, because each has at least its first rounds."""
SMALLEST_PROBABILITY = 1e-7
LINEAR_ROUNDS = (25, 50, 100, 200, 400)
TREE_ROUNDS = (10, 20, 50, 100)
"""Rounds after which the clock is read; the last ones are complete."""


def import_libraries() -> None:
    """Import what trains baselines, which takes half a second and more on a busy machine."""
    import sklearn.decomposition
    import sklearn.ensemble
    import sklearn.feature_extraction.text
    import sklearn.linear_model  # noqa: F401


def most_rows(num_features: int) -> int:
    """Return how many samples of this width a baseline may read.

    Raises:
        Skipped: The samples are too wide.
    """
    most = MOST_CELLS // max(num_features, 1)
    if most < LEAST_ROWS:
        raise Skipped(f"{num_features:,} features are too many")
    return most


def fit_linear(
    features: Any,
    targets: NDArray[Any],
    asked: Iterable[Any],
    *,
    seconds: float,
    classes: int | None,
) -> Fitted:
    """Train logistic or ridge regression.

    Args:
        features: (N, F) standardised features, dense or sparse.
        targets: (N,) labels, or values.
        asked: Blocks (M, F) of features of the test samples.
        seconds: Time after which a longer training is not begun.
        classes: C for a classifier, None for a regressor.

    Raises:
        Skipped: The samples have too many classes, or one only.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    if classes is None:
        return Fitted(_predict(_limited(Ridge(alpha=1.0).fit, features, targets), asked))
    _check_classes(targets, classes)
    model = LogisticRegression(C=1.0, max_iter=LINEAR_ROUNDS[0], warm_start=True)
    note = _fit_in_rounds(model, features, targets, rounds=LINEAR_ROUNDS, seconds=seconds)
    return Fitted(_logits(model, asked, classes=classes), note)


def fit_linear_labels(
    features: Any,
    targets: NDArray[Any],
    asked: Iterable[Any],
    *,
    seconds: float,
) -> Fitted:
    """Train a logistic regression for each of several labels (one against the rest).

    Args:
        features: (N, F) standardised features, dense or sparse.
        targets: (N, C) 1 for each label of a sample, else 0.
        asked: Blocks (M, F) of features of the test samples.
        seconds: Time after which a longer training is not begun.

    Returns:
        Probabilities (M, C).

    Raises:
        Skipped: There are too many labels.
    """

    def fit(labels: NDArray[Any], blocks: list[Any], seconds: float) -> Fitted:
        return fit_linear(features, labels, blocks, seconds=seconds, classes=2)

    return _fit_each_label(fit, targets, asked, seconds=seconds, most=MOST_CLASSES)


def fit_tree_labels(
    features: NDArray[np.float32],
    targets: NDArray[Any],
    asked: Iterable[NDArray[np.float32]],
    *,
    seconds: float,
    categorical: list[bool],
) -> Fitted:
    """Train histogram-based gradient boosting for each of several labels; see `fit_linear_labels`.

    Raises:
        Skipped: There are too many labels.
    """

    def fit(labels: NDArray[Any], blocks: list[Any], seconds: float) -> Fitted:
        return fit_trees(
            features, labels, blocks, seconds=seconds, classes=2, categorical=categorical
        )

    return _fit_each_label(fit, targets, asked, seconds=seconds, most=MOST_TREE_LABELS)


def _fit_each_label(
    fit: Callable[[NDArray[Any], list[Any], float], Fitted],
    targets: NDArray[Any],
    asked: Iterable[Any],
    *,
    seconds: float,
    most: int,
) -> Fitted:
    """Return probabilities (M, C) of one model for each label; labels that never vary need none."""
    num_classes = targets.shape[1]
    if num_classes > most:
        raise Skipped(f"{num_classes:,} classes are too many")
    blocks, columns, notes = list(asked), [], []
    num = sum(block.shape[0] for block in blocks)
    for labels in targets.T:
        if labels.min() == labels.max():
            columns.append(np.full(num, float(labels[0])))
            continue
        fitted = fit(labels, blocks, seconds / num_classes)
        columns.append(np.exp(fitted.outputs[:, 1]))
        notes.append(fitted.note)
    return Fitted(np.stack(columns, axis=1), next(filter(None, notes), ""))


def fit_trees(
    features: NDArray[np.float32],
    targets: NDArray[Any],
    asked: Iterable[NDArray[np.float32]],
    *,
    seconds: float,
    classes: int | None,
    categorical: list[bool],
) -> Fitted:
    """Train histogram-based gradient boosting.

    Args:
        features: (N, F) numbers and codes, NaN if missing.
        targets: (N,) labels, or values.
        asked: Blocks (M, F) of features of the test samples.
        seconds: Time after which more trees are not begun.
        classes: C for a classifier, None for a regressor.
        categorical: (F,) whether a feature is the code of a category, below 255.

    Raises:
        Skipped: The samples have too many classes, or one only.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if classes is not None:
        _check_classes(targets, classes)
    kind = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
    model = kind(
        warm_start=True, early_stopping=False, random_state=0, categorical_features=categorical
    )
    note = _fit_in_rounds(model, features, targets, rounds=TREE_ROUNDS, seconds=seconds)
    if classes is None:
        return Fitted(_predict(model, asked), note)
    return Fitted(_logits(model, asked, classes=classes), note)


def _check_classes(targets: NDArray[Any], classes: int) -> None:
    if classes > MOST_CLASSES:
        raise Skipped(f"{classes:,} classes are too many")
    if len(np.unique(targets)) < 2:
        raise Skipped("the training samples have only one class")


def _fit_in_rounds(
    model: Any, features: Any, targets: NDArray[Any], *, rounds: tuple[int, ...], seconds: float
) -> str:
    """Continue training up to the last of `rounds`, or until the time is over; say which."""
    start = time.perf_counter()
    for num in rounds:
        model.set_params(max_iter=num)
        _limited(model.fit, features, targets)
        if _is_done(model, num):
            return ""
        if time.perf_counter() - start > seconds and num < rounds[-1]:
            return f"stopped after {num} of {rounds[-1]} rounds to save time"
    return ""


def _is_done(model: Any, num: int) -> bool:
    """Return whether the solver of a linear model ended before its limit; trees use all rounds."""
    is_linear = hasattr(model, "coef_")
    return is_linear and int(np.max(model.n_iter_)) < num


def _limited(fit: Any, features: Any, targets: NDArray[Any]) -> Any:
    """Train in one thread.

    More threads wait for each other by spinning, which on cores that other jobs use took 141 s
    instead of 4 s (1,797 x 64 features, 10 classes; scikit-learn 1.8, November 2026).
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(features, targets)


def _predict(model: Any, asked: Iterable[Any]) -> NDArray[np.float64]:
    return np.concatenate([model.predict(block) for block in asked])


def _logits(model: Any, asked: Iterable[Any], *, classes: int) -> NDArray[np.float64]:
    """Return logs of probabilities (M, C); classes without training samples get the smallest."""
    known = np.concatenate([model.predict_proba(block) for block in asked])
    found: NDArray[np.float64] = np.full((len(known), classes), SMALLEST_PROBABILITY)
    found[:, model.classes_.astype(np.int64)] = np.maximum(known, SMALLEST_PROBABILITY)
    return np.log(found)
