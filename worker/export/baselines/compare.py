"""Scores baselines on the test split and judges whether the model is better."""

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from redkiln.predict.compare import wilson
from redkiln.views.comparison import (
    IMAGE_BASELINES,
    BaselineScore,
    Comparison,
    CrossValidation,
    Interval,
    Threshold,
    describe_spread,
)
from redkiln.views.job import Warned
from worker.export.baselines.baseline import Baseline, Skipped
from worker.export.baselines.learners import import_libraries
from worker.export.scoring.regression import is_explained
from worker.export.target import ExportTarget, Outputs, Scored, Scoring

SHARE_OF_TRAINING = 0.1
LEAST_SECONDS = 2.0
MOST_SECONDS = 30.0
"""Limits of the time that baselines may add to a job."""
ACCURACY = "test/accuracy"
WHOLE = (ACCURACY, "test/macro_f1")
"""Metrics that are 1 if and only if every answer is right."""
EQUAL = 0.001
"""Part of its interval by which a metric of the ONNX file may differ and still be the same."""
MOST_REASON = 200
"""Characters of an error that a baseline's note shows."""
MOST_MASKS = 1000
"""Masks of the training split that decide about the constant answer; all may not fit in memory."""
USEFUL_AUC = 0.7
"""Chance has 0.5."""
FEW_SAMPLES = 20
"""Test samples of the rarer class; below, its recall has an interval of 40 points or more."""
SAME_MODEL = {"gradient-boosted trees": "gradient-boosting", "linear model": "linear"}
"""Models of the spec that are of the same kind as a baseline, by the baseline's name."""
MORE_SAMPLES = (
    "`redkiln train --folds 5` tests on every training row of a table; or push a test split with "
    "more samples of this class"
)

MORE_ROWS = (
    "Push more test samples; for a table, `redkiln train --folds 5` tests on every training row"
)


def find_budget(training_seconds: float) -> float:
    """Return how long all baselines may train, from how long the model did."""
    return min(MOST_SECONDS, max(LEAST_SECONDS, SHARE_OF_TRAINING * training_seconds))


@dataclass(frozen=True)
class Standing:
    """How good a model is, with the uncertainty of its test split.

    Attributes:
        intervals: 95 % confidence intervals by metric, named `test/...`.
        comparison: The model next to its baselines.
        is_error: Whether lower values of the compared metric are better.
    """

    intervals: dict[str, Interval]
    comparison: Comparison
    is_error: bool = False


def find_standing(
    target: ExportTarget,
    *,
    outputs: Outputs,
    of_file: Outputs,
    metrics: Mapping[str, float],
    training_seconds: float,
) -> Standing:
    """Compare a model with the constant answer and the task's baselines on the test split.

    Args:
        target: The task's data and baselines.
        outputs: (N, ...) the model's outputs for the test split.
        of_file: (N, ...) the same under ONNX Runtime.
        metrics: Its metrics by name, without `test/`.
        training_seconds: How long it trained, which limits the time of the baselines.
    """
    scoring, targets = target.scoring, target.targets[target.rows["test"]]
    intervals = scoring.find_intervals(outputs, targets)
    intervals |= _find_file_interval(scoring, (of_file, targets), metrics, known=intervals)
    metric = scoring.choose_compared(_read_train(target))
    value = metrics[metric]
    comparison = compare(
        score_baselines(target, seconds=find_budget(training_seconds)),
        metric=f"test/{metric}",
        value=value,
        interval=intervals.get(metric, (value, value)),
        is_error=scoring.is_error,
        is_explained=scoring.is_error and is_explained(outputs, targets.astype(np.float64)),
        num_test=len(targets),
    )
    by_split = {f"test/{name}": ends for name, ends in intervals.items()}
    return Standing(by_split, comparison, is_error=scoring.is_error)


def _find_file_interval(
    scoring: Scoring, test: Scored, metrics: Mapping[str, float], *, known: Mapping[str, Interval]
) -> dict[str, Interval]:
    """Return the interval of the headline of the ONNX file, if the trained model's has one.

    Bootstraps take seconds, so the trained model's is taken if the two headlines are equal.
    """
    name, name_of_file = scoring.headline, f"{scoring.headline}_onnx"
    if name not in known:
        return {}
    low, high = known[name]
    if abs(metrics[name_of_file] - metrics[name]) <= EQUAL * (high - low):
        return {name_of_file: (low, high)}
    own = scoring.find_intervals(*test).get(name)
    return {} if own is None else {name_of_file: own}


def _read_train(target: ExportTarget) -> NDArray[Any]:
    """Return the targets of the training split; of masks, which are large, only some."""
    rows = target.rows["train"]
    if target.targets.ndim == 3:
        rows = rows[:: -(-len(rows) // MOST_MASKS)]
    found: NDArray[Any] = target.targets[rows]
    return found


def score_baselines(target: ExportTarget, *, seconds: float) -> list[BaselineScore]:
    """Train and score the constant answer and the task's baselines in about this time.

    Each baseline trains at least its first rounds.
    """
    test = target.rows["test"]
    name, outputs = target.scoring.answer_constantly(_read_train(target), len(test))
    scores = [_score(target, name, outputs)]
    if target.baselines:
        import_libraries()  # before the clock starts
    end = time.perf_counter() + seconds
    for place, baseline in enumerate(target.baselines):
        rest = max(0.0, end - time.perf_counter()) / (len(target.baselines) - place)
        scores.append(_train(target, baseline, seconds=rest))
    return scores


def compare(
    baselines: Sequence[BaselineScore],
    *,
    metric: str,
    value: float,
    interval: Interval,
    is_error: bool,
    is_explained: bool = False,
    num_test: int | None = None,
) -> Comparison:
    """Judge a model by the interval of one metric.

    Args:
        baselines: Scores of the baselines; the first is the constant answer.
        metric: Name of the compared metric, as in `test/accuracy`.
        value: The model's value.
        interval: Its 95 % confidence interval.
        is_error: Whether lower values are better.
        is_explained: Whether a comparison on the same samples shows that it beats the constant
            answer, whatever the interval says.
        num_test: Number of test samples. An image baseline is better only if the intervals of both
            accuracies are apart, because on simple images it makes as few mistakes as a network.
    """
    sign = -1 if is_error else 1
    low, high = sorted(sign * end for end in interval)
    known = {b.name: sign * b.metrics[metric] for b in baselines if metric in b.metrics}
    best = max(known, key=lambda name: known[name])
    verdict: Literal["better", "equal", "worse"] = "equal"
    if low > known[best]:
        verdict = "better"
    elif high < _find_least(known[best], best, metric=metric, num_test=num_test):
        verdict = "worse"
    return Comparison(
        metric=metric,
        value=value,
        interval=interval,
        baselines=list(baselines),
        best=best,
        verdict=verdict,
        beats_constant=low > known[baselines[0].name] or is_explained,
        both_perfect=metric in WHOLE and value == known[best] == 1 and best != baselines[0].name,
    )


def _find_least(value: float, name: str, *, metric: str, num_test: int | None) -> float:
    """Return the lower end of the interval of an image baseline's accuracy; of others the value."""
    if name not in IMAGE_BASELINES or metric != ACCURACY or num_test is None:
        return value
    return wilson(value, num_test)[0]


def find_warning(
    comparison: Comparison,
    *,
    num_test: int,
    is_error: bool = False,
    auc: float | None = None,
    threshold: Threshold | None = None,
    folds: CrossValidation | None = None,
    model: str | None = None,
) -> Warned | None:
    """Return the job's warning if a baseline is as good as the model, and not all are perfect.

    An image baseline that is only as good gets a note next to its value instead.

    Args:
        comparison: The model next to its baselines.
        num_test: Number of test samples.
        is_error: Whether lower values of the compared metric are better.
        auc: Its AUC on the test split, of a classifier.
        threshold: Its decision threshold, of two classes.
        folds: Scores of its folds, if it was cross-validated.
        model: Its name in the spec. It need not be better than a baseline of the same kind.
    """
    if comparison.verdict == "better" or comparison.both_perfect or comparison.is_matched:
        return None
    is_same = model is not None and SAME_MODEL.get(comparison.best) == model
    if is_same and comparison.verdict == "equal" and comparison.beats_constant:
        return None
    constant = comparison.baselines[0].name
    is_worse = comparison.verdict == "worse" and comparison.beats_constant
    few = None if is_worse else _find_few(threshold)
    if few is not None and _is_useful(auc, folds):
        numbers = f"{_numbers(comparison, comparison.best)} of the {comparison.best}"
        surer = MORE_SAMPLES if folds is None else _describe_folds(folds)
        message = f"{few}. {numbers}; AUC {auc:.4g}. {surer}"
        return Warned(code="few_of_a_class", message=message)
    if not comparison.beats_constant and comparison.metric == "test/macro_f1" and _is_useful(auc):
        return Warned(
            code="not_better_than_constant",
            message=f"the most likely class is nearly always the {constant}: "
            f"{_numbers(comparison, constant)}; an AUC of {auc:.4g} shows that the probabilities "
            f"do separate the classes; {_advise(threshold, folds)}",
        )
    if not comparison.beats_constant and _is_ahead(comparison, constant, is_error=is_error):
        surer = MORE_ROWS if folds is None else _describe_folds(folds)
        return Warned(
            code="not_better_than_constant",
            message=f"the {num_test:,} test samples do not show that the model is better than "
            f"always answering the {constant}: {_numbers(comparison, constant)}. {surer}",
        )
    if not comparison.beats_constant:
        return Warned(
            code="not_better_than_constant",
            message=f"the model is not better than always answering the {constant}: "
            f"{_numbers(comparison, constant)}; check the labels and the learning rate, and look "
            "at the curves; then train longer (more epochs, or a higher `quality`), or add inputs "
            "that predict the answer better",
        )
    numbers, more = _numbers(comparison, comparison.best), ""
    if comparison.metric == "test/macro_f1" and (offered := _offer(threshold)):
        more = f". Both decide at a probability of 0.5. To find more, {offered}"
    if comparison.verdict == "worse":
        same = SAME_MODEL.get(comparison.best)
        named = f"train it with `--model {same}`, or train" if same else "train"
        return Warned(
            code="worse_than_baseline",
            message=f"the baseline `{comparison.best}` is better than the model: {numbers}; "
            f"{named} longer or change the model{more}",
        )
    return Warned(
        code="not_better_than_baseline",
        message=f"the test split does not show that the model is better than the baseline "
        f"`{comparison.best}`: {numbers}{more}",
    )


def _is_ahead(comparison: Comparison, baseline: str, *, is_error: bool) -> bool:
    """Return whether the model's value is better than a baseline's, sure or not."""
    theirs = _value_of(comparison, baseline)
    return comparison.value < theirs if is_error else comparison.value > theirs


def _describe_folds(folds: CrossValidation) -> str:
    """Return the scores of the folds, which together score each row once."""
    scores = folds.summarise()
    shown = [name for name in ("auc", "macro_f1") if name in scores]
    told = ", ".join(f"{name} {describe_spread(scores[name])}" for name in shown)
    return (
        "The folds score every training row, so their scores are more certain than that of the "
        f"test split: {told or 'see folds'}"
    )


def _is_useful(auc: float | None, folds: CrossValidation | None = None) -> bool:
    """Return whether a model ranks samples of the test split, or of folds, better than chance."""
    found = [auc, *(folds.summarise().get("auc", ())[:1] if folds else ())]
    return any(one is not None and one >= USEFUL_AUC for one in found)


def _find_few(threshold: Threshold | None) -> str | None:
    """Return what says that the test split has too few samples of the rarer class; else None."""
    if threshold is None or not threshold.decisions:
        return None
    first = threshold.decisions[0]
    num = first.found + first.missed
    if num >= FEW_SAMPLES:
        return None
    chosen = {one.probability: one for one in threshold.decisions}.get(threshold.probability, first)
    return (
        f"the test split has only {num} samples of class {threshold.class_name}, too few for a "
        f"sure verdict: from a probability of {chosen.probability:.3g} on, the model finds "
        f"{chosen.found} of them, with {chosen.false_alarms} false "
        f"{'alarm' if chosen.false_alarms == 1 else 'alarms'}"
    )


def _advise(threshold: Threshold | None, folds: CrossValidation | None) -> str:
    """Return the threshold to use; if it gains nothing, what may help.

    Source: bench/results/2026-11-28-rare-class.md.
    """
    if offered := _offer(threshold):
        return offered
    by_folds = "for a table, choose the decision threshold on all training rows with --folds 5; "
    return (
        f"{by_folds if threshold is not None and folds is None else ''}add samples of rare "
        "classes; or try training.class_weights balanced, which makes the probabilities wrong"
    )


def _offer(threshold: Threshold | None) -> str:
    """Return how to use the threshold; nothing if it gains nothing."""
    if threshold is None or threshold.probability == 0.5:
        return ""
    if threshold.test_f1 <= threshold.test_f1_at_half:
        return ""
    name = threshold.class_name
    return (
        f"predict {name} if its probability is at least {threshold.probability:.3g} (F1 of {name} "
        f"{threshold.test_f1:.4g} instead of {threshold.test_f1_at_half:.4g}): `redkiln predict "
        "--threshold auto`"
    )


def _numbers(comparison: Comparison, baseline: str) -> str:
    low, high = comparison.interval
    return (
        f"{comparison.metric} {comparison.value:.4g} (95 % interval {low:.4g} to {high:.4g}) "
        f"against {_value_of(comparison, baseline):.4g}"
    )


def _value_of(comparison: Comparison, baseline: str) -> float:
    return next(b.metrics[comparison.metric] for b in comparison.baselines if b.name == baseline)


def _train(target: ExportTarget, baseline: Baseline, *, seconds: float) -> BaselineScore:
    try:
        fitted = baseline.fit(target.rows["train"], target.rows["test"], seconds)
        if not np.isfinite(fitted.outputs).all():
            raise ValueError("its answers are not finite")
        return _score(target, baseline.name, fitted.outputs, note=fitted.note)
    except Skipped as reason:
        return BaselineScore(name=baseline.name, note=f"not trained: {reason}")
    except Exception as error:  # noqa: BLE001  # a baseline must not cost a trained model
        traceback.print_exc()
        words = " ".join(f"{type(error).__name__}: {error}".split())[:MOST_REASON]
        return BaselineScore(name=baseline.name, note=f"failed, see trainer.log: {words}")


def _score(
    target: ExportTarget, name: str, outputs: NDArray[Any], *, note: str = ""
) -> BaselineScore:
    numbers = outputs if outputs.dtype == object else outputs.astype(np.float32)
    found = target.scoring.score(numbers, target.targets[target.rows["test"]])
    metrics = {f"test/{metric}": value for metric, value in found.items()}
    return BaselineScore(name=name, metrics=metrics, note=note)
