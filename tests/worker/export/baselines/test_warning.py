from functools import partial

import pytest

from redkiln.views.comparison import (
    IMAGE_BASELINES,
    BaselineScore,
    CrossValidation,
    Decision,
    Threshold,
)
from worker.export.baselines.compare import Pair, compare
from worker.export.baselines.warning import find_warning

CONSTANT = ("majority class", 0.5)


warn = partial(find_warning, num_test=40)


def baselines(*pairs):
    return [BaselineScore(name=name, metrics={"test/a": value}) for name, value in pairs]


def compared(tree, interval):
    return compare(
        baselines(CONSTANT, ("trees", tree)),
        metric="test/a",
        value=interval[0],
        interval=interval,
        is_error=False,
    )


def test_a_model_that_does_not_beat_its_baselines_is_warned_of_with_numbers():
    assert warn(compared(0.6, (0.7, 0.8))) is None
    equal, worse = warn(compared(0.75, (0.7, 0.8))), warn(compared(0.9, (0.7, 0.8)))
    useless = warn(compared(0.9, (0.5, 0.6)))
    assert equal.code == "not_better_than_baseline"
    assert equal.message == (
        "the test samples do not show whether the model or the baseline `trees` is better: "
        "test/a 0.7 (95 % interval 0.7 to 0.8) against 0.75"
    )
    assert worse.code == "worse_than_baseline"
    assert worse.message.startswith("the model is worse than the baseline `trees`: test/a 0.7")
    assert "--model" not in equal.message + worse.message
    assert useless.code == "not_better_than_constant"
    assert "always answering the majority class" in useless.message
    assert "against 0.5" in useless.message


@pytest.mark.parametrize(
    ("metric", "constant", "value", "interval", "is_ahead"),
    [
        ("test/accuracy", 0.525, 0.575, (0.422, 0.715), True),
        ("test/accuracy", 0.525, 0.525, (0.375, 0.671), False),
        ("test/rmse", 10.0, 9.0, (8.0, 10.5), True),
        ("test/rmse", 10.0, 11.0, (9.0, 13.0), False),
    ],
)
def test_a_model_that_may_be_better_than_the_constant_answer_is_not_called_useless(
    metric, constant, value, interval, is_ahead
):
    is_error = metric == "test/rmse"
    found = compare_with({"mean": constant}, metric, value, interval, is_error=is_error)
    warning = warn(found, is_error=is_error)
    assert warning.code == "not_better_than_constant"
    doubt = (
        "the 40 test samples do not show that the model is better than always answering the mean"
    )
    assert warning.message.startswith(doubt) is is_ahead
    assert ("check the labels" in warning.message) is not is_ahead
    assert ("train --folds 5` tests on every training row" in warning.message) is is_ahead
    folds = CrossValidation(folds=[{"rmse": 9.0}, {"rmse": 9.5}])
    assert "--folds 5" not in warn(found, is_error=is_error, folds=folds).message


@pytest.mark.parametrize(
    ("metric", "tree", "constant", "both"),
    [("accuracy", 1, 0.5, True), ("accuracy", 0.99, 0.5, False), ("accuracy", 1, 1, False),
     ("macro_f1", 1, 0.5, True), ("map", 1, 0.5, False)],
)  # fmt: skip
def test_a_perfect_baseline_gives_no_warning_if_the_model_is_perfect_too(
    metric, tree, constant, both
):
    known = [("majority class", constant), ("trees", tree)]
    scores = [BaselineScore(name=n, metrics={f"test/{metric}": v}) for n, v in known]
    found = compare(
        scores, metric=f"test/{metric}", value=1.0, interval=(0.95, 1.0), is_error=False
    )
    assert found.both_perfect is both
    assert (warn(found) is None) is both


def compare_with(others, metric, value, interval, *, is_error=False):
    """Compare a model's value with those of baselines by their names."""
    scores = [BaselineScore(name=name, metrics={metric: its}) for name, its in others.items()]
    return compare(scores, metric=metric, value=value, interval=interval, is_error=is_error)


def test_a_rare_class_that_the_model_ranks_well_needs_a_threshold_and_no_more_training():
    found = compare_with({"majority class": 0.5}, "test/macro_f1", 0.5, (0.4, 0.5))
    assert "an AUC of 0.94" in warn(found, auc=0.94).message
    scores = {"class_name": "rare", "validation_f1": 0.7, "test_f1": 0.6, "test_f1_at_half": 0.2}
    said = {
        probability: warn(
            found, auc=0.94, threshold=Threshold(probability=probability, **scores)
        ).message
        for probability in (0.125, 0.5)
    }
    assert "if its probability is at least 0.125 (F1 of rare 0.6 instead of 0.2)" in said[0.125]
    assert "class_weights" not in said[0.125]
    assert "choose the decision threshold on all training rows with --folds 5" in said[0.5]
    assert "class_weights balanced, which makes the probabilities wrong" in said[0.5]
    folds = CrossValidation(folds=[{"auc": 0.9}] * 2)
    threshold = Threshold(probability=0.5, **scores)
    advised = warn(found, auc=0.94, threshold=threshold, folds=folds).message
    assert "--folds" not in advised
    assert "train longer" in warn(found, auc=0.6).message


def test_few_samples_of_a_class_do_not_hide_a_baseline_that_is_surely_better():
    found = compare_with({"majority class": 0.58, "linear model": 1.0}, "test/a", 0.85, (0.7, 0.93))
    few = {"decisions": [Decision(probability=0.5, found=14, missed=3, false_alarms=3)]}
    scores = {"class_name": "left", "validation_f1": 0.9, "test_f1": 0.8, "test_f1_at_half": 0.8}
    warning = warn(found, auc=0.9, threshold=Threshold(probability=0.5, **scores, **few))
    assert warning.code == "worse_than_baseline"
    assert warning.message.endswith(
        "; try `--model linear`, or train longer with `--epochs N` or `--quality best`"
    )


def test_a_baseline_that_is_as_good_at_a_half_does_not_hide_a_useful_threshold():
    others = {"majority class": 0.4, "linear model": 0.7}
    found = compare_with(others, "test/macro_f1", 0.6, (0.55, 0.65))
    scores = {"class_name": "rare", "validation_f1": 0.7, "test_f1": 0.6, "test_f1_at_half": 0.2}
    useful = warn(found, auc=0.9, threshold=Threshold(probability=0.125, **scores))
    assert useful.code == "worse_than_baseline"
    assert "To find more, predict rare if its probability is at least 0.125" in useful.message
    few = {"decisions": [Decision(probability=0.125, found=2, missed=4, false_alarms=1)]}
    unsure = Threshold(probability=0.125, **scores, **few)
    assert "To find more" not in warn(found, auc=0.9, threshold=unsure).message
    by_folds = CrossValidation(folds=[{"macro_f1": 0.5, "macro_f1_at_threshold": 0.7}] * 2)
    surer = warn(found, auc=0.9, threshold=unsure, folds=by_folds).message
    assert "(macro F1 on the held-out rows of the folds 0.7 instead of 0.5)" in surer
    plain = warn(found, auc=0.9, threshold=Threshold(probability=0.5, **scores))
    assert plain.message.endswith("or train longer with `--epochs N` or `--quality best`")


@pytest.mark.parametrize(
    ("baseline", "model", "advice"),
    [
        (IMAGE_BASELINES[0], "small-cnn", "try `--model resnet18`, or train longer with "),
        (IMAGE_BASELINES[1], "resnet18", "try `--model convnext`, or train longer with "),
        ("linear model on TF-IDF", "distilbert", "try `--model ngrams`, or train longer with "),
        ("linear model", "linear", "against 0.9; train longer with `--epochs N`"),
        ("linear model", "gradient-boosting", "`, or train longer with `--set training.steps=N`"),
    ],
)
def test_a_surely_better_baseline_names_options_to_type(baseline, model, advice):
    found = compare_with({"mean": 0.1, baseline: 0.9}, "test/a", 0.5, (0.4, 0.6))
    assert advice in warn(found, model=model).message
    unsure = compare_with({"mean": 0.1, baseline: 0.55}, "test/a", 0.5, (0.4, 0.6))
    told = warn(unsure, model=model)
    assert told is None or "`--" not in told.message


def test_answers_that_differ_are_counted_in_the_warning():
    found = compare(
        baselines(CONSTANT, ("trees", 0.9)), metric="test/a", value=0.8, interval=(0.7, 0.95),
        is_error=False, judge=lambda name: Pair("equal" if name == "trees" else "better", 3),
        num_test=26,
    )  # fmt: skip
    assert "`trees` is better (their answers differ for 3 of 26): test/a" in warn(found).message


def test_folds_that_show_a_better_model_outweigh_an_unsure_test_split():
    unsure, worse = compared(0.75, (0.7, 0.8)), compared(0.9, (0.7, 0.8))
    better = CrossValidation(folds=[{"a": 0.7}] * 2, comparison=compared(0.6, (0.7, 0.8)))
    assert warn(unsure, folds=better) is None
    assert warn(worse, folds=better).code == "worse_than_baseline"
    also_unsure = CrossValidation(folds=[{"a": 0.7}] * 2, comparison=unsure)
    assert warn(unsure, folds=also_unsure).code == "not_better_than_baseline"


def test_few_test_samples_of_a_class_are_named_instead_of_a_verdict():
    others = {"majority class": 0.4975, "linear model": 0.9}
    found = compare_with(others, "test/macro_f1", 0.83, (0.4975, 1.0))
    decisions = [
        Decision(probability=0.5, found=2, missed=2, false_alarms=0),
        Decision(probability=0.1, found=4, missed=0, false_alarms=6),
        Decision(probability=0.05, found=4, missed=0, false_alarms=10),
    ]
    scores = {"class_name": "yes", "validation_f1": 0.7, "test_f1": 0.6, "test_f1_at_half": 0.5}
    threshold = Threshold(probability=0.1, decisions=decisions, **scores)
    warning = warn(found, auc=0.996, threshold=threshold)
    assert warning.code == "few_of_a_class"
    assert "only 4 samples of class yes" in warning.message
    both = (
        "the model finds 4 with 6 false alarms from a probability of 0.1 on; 2 with 0 false alarms "
        "from a probability of 0.5 on"
    )
    assert both in warning.message
    assert "against 0.9 of the linear model; AUC 0.996" in warning.message
    assert "--folds 5" in warning.message
    folds = CrossValidation(folds=[{"auc": 0.7, "rmse": 1.0}, {"auc": 0.8, "rmse": 1.0}])
    warning = warn(found, auc=0.996, threshold=threshold, folds=folds)
    assert warning.message.endswith(
        "so their scores are more certain than that of the test split: auc 0.75 ± 0.071"
    )
    warning = warn(found, auc=0.4, threshold=threshold, folds=folds)
    assert warning.code == "few_of_a_class"  # the folds say that it is better than chance
    warning = warn(found, auc=0.55, threshold=threshold)
    assert warning.code == "not_better_than_constant"
    assert "too few for a sure verdict" in warning.message
    assert "--folds 5" in warning.message
    worse = threshold.model_copy(update={"test_f1": 0.4})
    assert both in warn(found, auc=0.996, threshold=worse).message
    decisions[0].found = 30
    assert warn(found, auc=0.996, threshold=threshold).code == "not_better_than_constant"


@pytest.mark.parametrize(
    ("model", "is_warned"), [("gradient-boosting", False), ("tabm", True), (None, True)]
)
def test_a_model_need_not_be_better_than_a_baseline_of_its_own_kind(model, is_warned):
    others = {"mean": 2.0, "gradient-boosted trees": 1.0}
    found = compare_with(others, "test/rmse", 1.0, (0.8, 1.2), is_error=True)
    assert (warn(found, model=model) is not None) is is_warned


@pytest.mark.parametrize(
    ("linear", "constant", "code"),
    [
        (0.78, 0.5, None),
        (0.82, 0.5, None),
        (0.9, 0.5, "worse_than_baseline"),
        (0.78, 0.76, "not_better_than_constant"),
    ],
)
def test_an_image_baseline_is_warned_of_only_if_it_is_better(linear, constant, code):
    found = compare(
        baselines(("majority class", constant), (IMAGE_BASELINES[0], linear)),
        metric="test/a",
        value=0.8,
        interval=(0.75, 0.85),
        is_error=False,
    )
    warning = warn(found)
    assert (warning and warning.code) == code
