"""Early stopping: whether a metric has ceased to improve."""

from redkiln.spec.job_spec import EarlyStopping, Training
from worker.checkpoints.history import History, Points


class Patience:
    """Judges the metrics after each epoch; without a rule in the spec it never ends."""

    def __init__(self, training: Training) -> None:
        self._rule = training.early_stopping
        self._metrics = training.metrics

    def is_over(self, history: History) -> bool:
        """Whether so many epochs as the rule allows have gone by without an improvement."""
        if self._rule is None:
            return False
        points = history.series.get(self._rule.metric, [])
        if not points:
            return False
        return len(points) - 1 - self._find_best(points) >= self._rule.patience

    def explain(self, history: History, *, epochs: int) -> str:
        """Why training ends now, for people."""
        assert self._rule is not None
        name = self._rule.metric
        points = history.series[name]
        best = self._find_best(points)
        return (
            f"stopped early, after epoch {len(points)} of {epochs}: {name} has not improved on "
            f"{points[best][1]:.4g} of epoch {best + 1}"
        )

    def _find_best(self, points: Points) -> int:
        assert self._rule is not None
        is_lower_better = self._metrics[self._rule.metric] == "lower"
        return last_improvement(points, self._rule, is_lower_better=is_lower_better)


def last_improvement(points: Points, rule: EarlyStopping, *, is_lower_better: bool) -> int:
    """Place of the last point that beat the best before it by more than `min_delta`.

    Args:
        points: of the metric, one an epoch; at least one.
        rule: of the spec.
        is_lower_better: of two values of this metric.
    """
    sign = -1.0 if is_lower_better else 1.0
    best = 0
    for place, (_, value) in enumerate(points):
        if sign * (value - points[best][1]) > rule.min_delta:
            best = place
    return best
