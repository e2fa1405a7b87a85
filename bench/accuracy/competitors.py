"""Other libraries on a table, with their default settings and one thread.

XGBoost and LightGBM are optional: `pip install -e '.[bench]'`.
"""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import ensemble, linear_model
from sklearn.impute import SimpleImputer
from sklearn.metrics import f1_score, log_loss, roc_auc_score, root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.accuracy.table_sets import Rows

OPTIONAL = {"XGBoost": "xgboost", "LightGBM": "lightgbm"}
"""Packages by the name that the benchmark shows."""


def list_competitors() -> dict[str, Callable[[bool], Any]]:
    """Return what builds each model, for a regression or for classes, by its name."""
    known: dict[str, Callable[[bool], Any]] = {
        "linear": _build_linear,
        "random forest": _build_forest,
        "HistGradientBoosting": _build_histogram,
        "XGBoost": _build_xgboost,
        "LightGBM": _build_lightgbm,
    }
    return {name: build for name, build in known.items() if name not in find_missing()}


def find_missing() -> list[str]:
    """Return the names of optional models whose package is not installed."""
    return [name for name, package in OPTIONAL.items() if not importlib.util.find_spec(package)]


@dataclass(frozen=True)
class Score:
    """How good a model is on the test rows.

    Attributes:
        main: RMSE of values, or AUC of probabilities, of each class against the rest.
        log_loss: Log loss of the probabilities; None for values.
        f1: Macro F1 of the most likely classes; None for values.
        seconds: CPU seconds of the training.
        f1_at_threshold: Macro F1 at the threshold that was chosen on validation; None without one.
    """

    main: float
    log_loss: float | None
    f1: float | None
    seconds: float
    f1_at_threshold: float | None = None


def score_competitor(build: Callable[[bool], Any], rows: Rows) -> Score:
    """Train a model and return its scores on the test rows."""
    inputs = encode(rows)
    train, test = inputs[: rows.num_train], inputs[rows.num_train :]
    model = build(rows.is_regression)
    start = time.process_time()
    model.fit(train, rows.targets[: rows.num_train])
    seconds = time.process_time() - start
    outputs = model.predict(test) if rows.is_regression else model.predict_proba(test)
    return score(rows.targets[rows.num_train :], outputs, seconds=seconds)


def score(targets: NDArray[Any], outputs: NDArray[Any], *, seconds: float) -> Score:
    """Score outputs for the test rows.

    Args:
        targets: (N,) float64 values, or int64 labels.
        outputs: (N,) values, or (N, classes) probabilities.
        seconds: CPU seconds of the training.
    """
    if targets.dtype.kind == "f":
        return Score(float(root_mean_squared_error(targets, outputs)), None, None, seconds)
    if outputs.shape[1] == 2:
        auc = roc_auc_score(targets, outputs[:, 1])
    else:
        auc = roc_auc_score(targets, outputs, multi_class="ovr")
    # Some libraries return float32, whose rounded sums log_loss warns about.
    outputs = outputs.astype(np.float64)
    outputs = outputs / outputs.sum(axis=1, keepdims=True)
    loss = log_loss(targets, outputs, labels=range(outputs.shape[1]))
    f1 = f1_score(targets, outputs.argmax(axis=1), average="macro")
    return Score(float(auc), float(loss), float(f1), seconds)


def encode(rows: Rows) -> NDArray[np.float64]:
    """Return numbers and one column for each category."""
    columns = [codes[:, None] == np.unique(codes) for codes in rows.codes.T]
    return np.hstack([rows.numbers, *columns])


def _build_linear(is_regression: bool) -> Any:
    model = (
        linear_model.Ridge() if is_regression else linear_model.LogisticRegression(max_iter=2000)
    )
    return make_pipeline(SimpleImputer(), StandardScaler(), model)


def _build_forest(is_regression: bool) -> Any:
    if is_regression:
        return ensemble.RandomForestRegressor(random_state=0)
    return ensemble.RandomForestClassifier(random_state=0)


def _build_histogram(is_regression: bool) -> Any:
    if is_regression:
        return ensemble.HistGradientBoostingRegressor(random_state=0)
    return ensemble.HistGradientBoostingClassifier(random_state=0)


def _build_xgboost(is_regression: bool) -> Any:
    import xgboost

    return xgboost.XGBRegressor(n_jobs=1) if is_regression else xgboost.XGBClassifier(n_jobs=1)


def _build_lightgbm(is_regression: bool) -> Any:
    import lightgbm

    if is_regression:
        return lightgbm.LGBMRegressor(n_jobs=1, verbose=-1)
    return lightgbm.LGBMClassifier(n_jobs=1, verbose=-1)
