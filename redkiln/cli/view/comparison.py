"""Says how a model compares with its baselines, in the summary of a job."""

from redkiln.cli.view import words
from redkiln.cli.view.panel import metric_words
from redkiln.views.comparison import BaselineScore, Comparison, CrossValidation, Decision, Threshold

AUC = "test/auc"
MACRO_F1 = "test/macro_f1"
USUAL = 0.5
"""Threshold of a model of two classes, whose answer is the more probable one."""


def interval_words(comparison: Comparison | None, metric: str) -> str:
    """Return `, 95 % interval 97.1 % to 99.0 %` for the compared metric, and nothing for others."""
    if comparison is None or comparison.metric != metric:
        return ""
    if comparison.interval[0] == comparison.interval[1]:
        return ""  # all resamples agree, so they know nothing of other samples
    low, high = (words.metric(metric, end) for end in comparison.interval)
    return f", 95 % interval {low} to {high}"


def baseline_words(comparison: Comparison) -> str:
    """Return the value of each baseline, as in `majority class 10.3 % (test accuracy)`.

    Macro F1 depends on the threshold, so AUC follows it.
    """
    metric = comparison.metric
    values = ", ".join(
        f"{baseline.name} {words.metric(metric, baseline.metrics[metric])}"
        f"{_auc_words(baseline) if metric == MACRO_F1 else ''}"
        for baseline in comparison.baselines
        if metric in baseline.metrics
    )
    end = "; as good as the model: all answers are right" if comparison.both_perfect else ""
    return f"{values} ({metric_words(metric)}){end}"


def _auc_words(baseline: BaselineScore) -> str:
    value = baseline.metrics.get(AUC)
    return "" if value is None else f" with AUC {words.metric(AUC, value)}"


def threshold_words(threshold: Threshold) -> str:
    """Return what the chosen threshold and 0.5 find; nothing if they find the same."""
    at = {one.probability: one for one in threshold.decisions}
    if threshold.probability == USUAL or not at:
        return ""
    chosen, usual = at[threshold.probability], at[USUAL]
    if (chosen.found, chosen.false_alarms) == (usual.found, usual.false_alarms):
        return ""
    how = "redkiln predict --threshold auto"
    if threshold.test_f1 < threshold.test_f1_at_half:
        how += f" uses {chosen.probability:.3g}, but 0.5 has a higher F1 here"
    return (
        f"answering {threshold.class_name} from a probability of {chosen.probability:.3g} on "
        f"{_decided(chosen)}; from 0.5 on, it {_decided(usual)} (test split; {how})"
    )


def _decided(decision: Decision) -> str:
    return (
        f"finds {decision.found} of {decision.found + decision.missed} with "
        f"{words.plural(decision.false_alarms, 'false alarm')}"
    )


def fold_rows(found: CrossValidation) -> list[tuple[str, str]]:
    """Return a line for each fold of a cross-validation, and one with means and deviations."""
    totals = found.summarise()
    rows = [
        (f"fold {number}", ", ".join(f"{name} {fold[name]:.4g}" for name in totals))
        for number, fold in enumerate(found.folds, start=1)
    ]
    means = ", ".join(f"{name} {spread_words(spread)}" for name, spread in totals.items())
    return [*rows, ("folds", means)]


def spread_words(spread: tuple[float, float]) -> str:
    """Return a mean and a standard deviation, as in `0.8765 ± 0.012`."""
    mean, deviation = spread
    return f"{mean:.4g} ± {deviation:.2g}"
