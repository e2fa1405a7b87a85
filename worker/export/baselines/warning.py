"""The job's warning that its model is not better than a baseline, with what to do about it."""

from redkiln.spec.boosting import BOOSTING
from redkiln.views.comparison import (
    FEW_SAMPLES,
    HELD_OUT,
    IMAGE_BASELINES,
    Comparison,
    CrossValidation,
    Threshold,
    describe_spread,
)
from redkiln.views.job import Warned
from worker.export.card.markdown import number

USEFUL_AUC = 0.7
"""Chance has 0.5."""
SAME_MODEL = {
    "gradient-boosted trees": "gradient-boosting",
    "linear model": "linear",
    "linear model on TF-IDF": "ngrams",
}
"""Models of the spec that are of the same kind as a baseline, by the baseline's name."""
OTHER_NETWORKS = ("resnet18", "convnext")
"""Networks for images that another one can be replaced by."""
MORE_SAMPLES = (
    "`redkiln train --folds 5` tests on every training row of a table; or push a test split with "
    "more samples of this class"
)

MORE_ROWS = (
    "Push more test samples; for a table, `redkiln train --folds 5` tests on every training row"
)


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

    An image baseline that is only as good gets a note next to its value instead. Folds, which test
    on more rows, may show that the model is better where the test split cannot.

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
    if comparison.verdict == "equal" and _is_better_on_folds(folds):
        return None
    is_same = model is not None and SAME_MODEL.get(comparison.best) == model
    if is_same and comparison.verdict == "equal" and comparison.beats_constant:
        return None
    constant = comparison.baselines[0].name
    is_worse = comparison.verdict == "worse" and comparison.beats_constant
    few = None if is_worse or comparison.beats_constant else _find_few(threshold)
    if few is not None:
        numbers = f"{_numbers(comparison, comparison.best)} of the {comparison.best}"
        surer = MORE_SAMPLES if folds is None else _describe_folds(folds)
        ranked = "" if auc is None else f"; AUC {auc:.4g}"
        message = f"{few}. {numbers}{ranked}. {surer}"
        is_useful = _is_useful(auc, folds)
        code = "few_of_a_class" if is_useful else "not_better_than_constant"
        return Warned(code=code, message=message)
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
            f"at the curves; then train longer ({_train_longer(model)}), or add inputs that "
            "predict the answer better",
        )
    numbers, more = _numbers(comparison, comparison.best), ""
    if comparison.metric == "test/macro_f1" and (offered := _offer(threshold, folds)):
        more = f". Both decide at a probability of 0.5. To find more, {offered}"
    different = comparison.count_different()
    if comparison.verdict == "worse":
        return Warned(
            code="worse_than_baseline",
            message=f"the model is worse than the baseline `{comparison.best}`{different}: "
            f"{numbers}; {_list_remedies(comparison, model)}{more}",
        )
    return Warned(
        code="not_better_than_baseline",
        message=f"the test samples do not show whether the model or the baseline "
        f"`{comparison.best}` is better{different}: {numbers}{more}",
    )


def _list_remedies(comparison: Comparison, model: str | None) -> str:
    """Return what may be better than a model that is surely worse than a baseline."""
    other = SAME_MODEL.get(comparison.best)
    if comparison.best in IMAGE_BASELINES:
        other = next(name for name in OTHER_NETWORKS if name != model)
    named = f"try `--model {other}`, or " if other not in (None, model) else ""
    return f"{named}train longer with {_train_longer(model)}"


def _train_longer(model: str | None) -> str:
    """Return the options with which a model trains longer; trees have no epochs."""
    if model == BOOSTING:
        return "`--set training.steps=N`"
    return "`--epochs N` or `--quality best`"


def _is_ahead(comparison: Comparison, baseline: str, *, is_error: bool) -> bool:
    """Return whether the model's value is better than a baseline's, sure or not."""
    theirs = _value_of(comparison, baseline)
    return comparison.value < theirs if is_error else comparison.value > theirs


def _is_better_on_folds(folds: CrossValidation | None) -> bool:
    found = None if folds is None else folds.comparison
    return found is not None and found.verdict == "better" and found.beats_constant


def _describe_folds(folds: CrossValidation) -> str:
    """Return the scores of the folds, which together score each row once."""
    scores = folds.summarise()
    shown = [name for name in ("auc", "macro_f1") if name in scores]
    told = ", ".join(f"{name} {describe_spread(scores[name])}" for name in shown)
    said = "" if folds.comparison is None else folds.comparison.describe(HELD_OUT)
    on_all = f". {said[:1].upper()}{said[1:]}" if said else ""
    return (
        "The folds score every training row, so their scores are more certain than that of the "
        f"test split: {told or 'see folds'}{on_all}"
    )


def _is_useful(auc: float | None, folds: CrossValidation | None = None) -> bool:
    """Return whether a model ranks samples of the test split, or of folds, better than chance."""
    found = [auc, *(folds.summarise().get("auc", ())[:1] if folds else ())]
    return any(one is not None and one >= USEFUL_AUC for one in found)


def _find_few(threshold: Threshold | None) -> str | None:
    """Return what says that the test split has too few samples of the rarer class; else None."""
    if threshold is None or not threshold.decisions or threshold.num_tested >= FEW_SAMPLES:
        return None
    by_probability = {one.probability: one for one in threshold.decisions}
    shown = dict.fromkeys((threshold.probability, 0.5))
    counted = "; ".join(
        f"{one.found} with {one.false_alarms} false "
        f"{'alarm' if one.false_alarms == 1 else 'alarms'} from a probability of "
        f"{one.probability:.3g} on"
        for probability in shown
        if (one := by_probability.get(probability)) is not None
    )
    return (
        f"the test split has only {threshold.num_tested} samples of class {threshold.class_name}, "
        f"too few for a sure verdict; the model finds {counted}"
    )


def _advise(threshold: Threshold | None, folds: CrossValidation | None) -> str:
    """Return the threshold to use; if it gains nothing, what may help.

    Source: bench/results/2026-11-28-rare-class.md.
    """
    if offered := _offer(threshold, folds):
        return offered
    by_folds = "for a table, choose the decision threshold on all training rows with --folds 5; "
    return (
        f"{by_folds if threshold is not None and folds is None else ''}add samples of rare "
        "classes; or try training.class_weights balanced, which makes the probabilities wrong"
    )


def _offer(threshold: Threshold | None, folds: CrossValidation | None) -> str:
    """Return how to use the threshold; nothing if it gains nothing, or if too few samples tell."""
    if threshold is None or threshold.probability == 0.5:
        return ""
    name = threshold.class_name
    at, half, metric = threshold.test_f1, threshold.test_f1_at_half, f"F1 of {name}"
    scores = None if folds is None else folds.compare_thresholds()
    if scores is not None:
        (at, half), metric = scores, "macro F1 on the held-out rows of the folds"
    elif threshold.is_hardly_tested:
        return ""
    if at <= half:
        return ""
    return (
        f"predict {name} if its probability is at least {threshold.probability:.3g} ({metric} "
        f"{at:.4g} instead of {half:.4g}): `redkiln predict --threshold auto`"
    )


def _numbers(comparison: Comparison, baseline: str) -> str:
    low, high = comparison.interval
    return (
        f"{comparison.metric} {number(comparison.value)} (95 % interval {number(low)} to "
        f"{number(high)}) "
        f"against {number(_value_of(comparison, baseline))}"
    )


def _value_of(comparison: Comparison, baseline: str) -> float:
    return next(b.metrics[comparison.metric] for b in comparison.baselines if b.name == baseline)
