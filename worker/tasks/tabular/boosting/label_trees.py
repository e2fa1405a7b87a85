"""Trees for rows with several labels: one model for each label, grown together.

Shapes: N rows, K labels, R rounds.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier


class LabelTrees:
    """Looks like one fitted estimator of scikit-learn with K trees an iteration.

    Args:
        models: A binary classifier without trees for each label.
    """

    def __init__(self, models: list[HistGradientBoostingClassifier]) -> None:
        self.models = models
        self.n_trees_per_iteration_ = len(models)

    def get_params(self) -> dict[str, Any]:
        """Return the parameters, which all models share."""
        return dict(self.models[0].get_params())

    def set_params(self, **params: Any) -> None:
        """Change parameters of all models."""
        for model in self.models:
            model.set_params(**params)

    def fit(
        self,
        features: NDArray[np.float64],
        targets: NDArray[Any],
        sample_weight: NDArray[np.float64] | None = None,
    ) -> None:
        """Train every model on its column of the targets (N, K), with its column of weights."""
        for place, model in enumerate(self.models):
            weights = None if sample_weight is None else sample_weight[:, place]
            answers = targets[:, place].astype(np.int64)
            if (answers == answers[0]).all():
                # A classifier needs two kinds of rows. One wrong row, which no leaf can single out,
                # keeps the probability of the other kind near 1 / N.
                answers[0] = 1 - answers[0]
                model.set_params(min_samples_leaf=len(answers))
            model.fit(features, answers, sample_weight=weights)

    def decision_function(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of the trees of each label (N, K), the logit of its probability."""
        return np.stack([model.decision_function(features) for model in self.models], axis=1)

    def staged_decision_function(
        self, features: NDArray[np.float64]
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the sums (N, K) after each round."""
        stages = [model.staged_decision_function(features) for model in self.models]
        for raws in zip(*stages, strict=True):
            yield np.stack([raw.reshape(len(features)) for raw in raws], axis=1)

    @property
    def train_score_(self) -> NDArray[np.float64]:
        """Scores (R + 1, K)."""
        return np.stack([model.train_score_ for model in self.models], axis=1)

    @train_score_.setter
    def train_score_(self, scores: NDArray[np.float64]) -> None:
        for place, model in enumerate(self.models):
            model.train_score_ = scores[:, place].copy()

    @property
    def _predictors(self) -> list[list[Any]]:
        rounds = zip(*(model._predictors for model in self.models), strict=True)
        return [[tree for one in row for tree in one] for row in rounds]

    @_predictors.setter
    def _predictors(self, rows: list[list[Any]]) -> None:
        for place, model in enumerate(self.models):
            model._predictors = [[row[place]] for row in rows]

    @property
    def _baseline_prediction(self) -> NDArray[np.float64]:
        return np.concatenate([model._baseline_prediction.ravel() for model in self.models])

    @property
    def _preprocessor(self) -> Any:
        # All models have seen the same features.
        return self.models[0]._preprocessor
