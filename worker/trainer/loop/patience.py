"""Early stopping: decides whether a metric has stopped improving."""

from redkiln.spec.job_spec import EarlyStopping, Training
from worker.checkpoints.history import History, Points


class Patience:
    """Judges the metrics after each epoch; without a rule in the spec it never stops a run.

    Args:
        training: Training section of the spec.
        least_epochs: First epoch that counts.
    """

    def __init__(self, training: Training, *, least_epochs: int = 0) -> None:
        self._skipped = max(0, least_epochs - 1)
        self._rule = training.early_stopping
        self._metrics = training.metrics

    def is_over(self, history: History) -> bool:
        """Return whether the metric has not improved for as many epochs as the rule allows."""
        if self._rule is None:
            return False
        points = history.series.get(self._rule.metric, [])
        if len(points) <= self._skipped:
            return False
        return len(points) - 1 - self._find_best(points) >= self._rule.patience

    def explain(self, history: History, *, epochs: int) -> str:
        """Return why training ends now, as a message to the user."""
        assert self._rule is not None
        name = self._rule.metric
        points = history.series[name]
        best = self._find_best(points)
        return (
            f"stopped early after epoch {len(points)} of {epochs}: {name} has not improved since "
            f"epoch {best + 1} ({points[best][1]:.4g})"
        )

    def _find_best(self, points: Points) -> int:
        assert self._rule is not None
        is_lower_better = self._metrics[self._rule.metric] == "lower"
        counted = points[self._skipped :]
        found = last_improvement(counted, self._rule, is_lower_better=is_lower_better)
        return self._skipped + found


def last_improvement(points: Points, rule: EarlyStopping, *, is_lower_better: bool) -> int:
    """Return the index of the last point that beat the best before it by more than `min_delta`.

    Args:
        points: Points of the metric, one per epoch; at least one.
        rule: Rule from the spec.
        is_lower_better: Whether lower values of this metric are better.
    """
    sign = -1.0 if is_lower_better else 1.0
    best = 0
    for place, (_, value) in enumerate(points):
        if sign * (value - points[best][1]) > rule.min_delta:
            best = place
    return best
