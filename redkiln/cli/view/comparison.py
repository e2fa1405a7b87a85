"""Says how a model compares with its baselines, in the summary of a job."""

from redkiln.cli.view import words
from redkiln.cli.view.panel import metric_words
from redkiln.views.comparison import (
    BY_FOLDS,
    HELD_OUT,
    BaselineScore,
    Comparison,
    CrossValidation,
    Decision,
    Threshold,
    describe_spread,
)

ACCURACY = "test/accuracy"
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


def share_words(comparison: Comparison | None, metric: str) -> str:
    """Return what the constant answer reaches, for an accuracy that one large class decides."""
    if comparison is None or comparison.metric != MACRO_F1 or metric != ACCURACY:
        return ""
    share = comparison.baselines[0].metrics.get(ACCURACY)
    return (
        ""
        if share is None
        else f"; always answering the largest class gives {words.metric(ACCURACY, share)}"
    )


def baseline_words(comparison: Comparison, *, samples: str = "test samples") -> str:
    """Return the value of each baseline, and whether the model is better than the best of them.

    Macro F1 depends on the threshold, so AUC follows it.

    Args:
        comparison: The model next to its baselines.
        samples: Name of the samples that both were scored on.
    """
    metric = comparison.metric
    values = ", ".join(
        f"{baseline.name} {words.metric(metric, baseline.metrics[metric])}"
        f"{_auc_words(baseline) if metric == MACRO_F1 else ''}"
        for baseline in comparison.baselines
        if metric in baseline.metrics
    )
    end = comparison.describe(samples)
    if comparison.both_perfect:
        end = "as good as the model: all answers are right"
    if comparison.doubt:
        end += f". {comparison.doubt}"
    return f"{values} ({metric_words(metric)}); {end}"


def _auc_words(baseline: BaselineScore) -> str:
    value = baseline.metrics.get(AUC)
    return "" if value is None else f" with AUC {words.metric(AUC, value)}"


def threshold_words(
    threshold: Threshold, *, folds: CrossValidation | None = None, is_rare: bool = False
) -> str:
    """Return what `--threshold auto` changes on the test split.

    Args:
        threshold: The chosen threshold.
        folds: Scores of the job's folds, which tell more than the test split.
        is_rare: Whether one class dominates; only then it also says that nothing changes, and why.
    """
    at = {one.probability: one for one in threshold.decisions}
    if not at:
        return ""
    name, chosen, usual = threshold.class_name, at[threshold.probability], at[USUAL]
    if threshold.probability == USUAL:
        why = f"0.5 already has the highest F1 of {name} on {threshold.describe_source()}"
        more = "" if threshold.chosen_on == "folds" else f". {BY_FOLDS}"
        return f"--threshold auto changes nothing: {why}{more}" if is_rare else ""
    advice = threshold.advise(folds)
    more = f". {advice}" if advice else ""
    start = f"redkiln predict --threshold auto answers {name} from {chosen.probability:.3g} on. On "
    if (chosen.found, chosen.false_alarms) == (usual.found, usual.false_alarms):
        same = f"{start}the test split this gives the same answers as the usual 0.5{more}"
        return same if is_rare else ""
    return f"{start}the test split this {_decided(chosen)}; the usual 0.5 {_decided(usual)}{more}"


def _decided(decision: Decision) -> str:
    return (
        f"finds {decision.found} of {decision.found + decision.missed} with "
        f"{words.plural(decision.false_alarms, 'false alarm')}"
    )


def fold_rows(found: CrossValidation, *, first: str = "") -> list[tuple[str, str]]:
    """Return a line for each fold of a cross-validation, and one with means and deviations.

    Args:
        found: Scores of the folds.
        first: Metric that each line begins with, as in `test/accuracy`.
    """
    totals = found.summarise(first=first)
    rows = [
        (f"fold {number}", ", ".join(f"{name} {words.number(fold[name])}" for name in totals))
        for number, fold in enumerate(found.folds, start=1)
    ]
    means = ", ".join(f"{name} {describe_spread(spread)}" for name, spread in totals.items())
    rows.append(("folds", means))
    if found.comparison is not None:
        rows.append(("folds, baselines", baseline_words(found.comparison, samples=HELD_OUT)))
    return rows
