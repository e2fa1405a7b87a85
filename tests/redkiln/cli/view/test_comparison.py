import pytest

from redkiln.cli.view.comparison import (
    baseline_words,
    interval_words,
    share_words,
    threshold_words,
)
from redkiln.views.comparison import (
    ANSWER_INSIDE,
    BY_FOLDS,
    IMAGE_BASELINES,
    LIKE_TRAINING,
    TOO_EASY,
    BaselineScore,
    Comparison,
    CrossValidation,
    Decision,
    Threshold,
)

COMPARISON = Comparison(
    metric="test/accuracy",
    value=0.983,
    interval=(0.964, 0.992),
    baselines=[
        BaselineScore(name="majority class", metrics={"test/accuracy": 0.103, "test/auc": 0.5}),
        BaselineScore(name="linear model", note="not trained: 200 classes are too many"),
        BaselineScore(name="gradient-boosted trees", metrics={"test/accuracy": 0.972}),
    ],
    best="gradient-boosted trees",
    verdict="equal",
    beats_constant=True,
)


def test_the_interval_follows_the_compared_metric_only():
    words = interval_words(COMPARISON, "test/accuracy")
    assert words == ", 95 % interval 96.4 % to 99.2 %"
    assert interval_words(COMPARISON, "test/loss") == ""
    sure = COMPARISON.model_copy(update={"interval": (1.0, 1.0)})
    assert interval_words(sure, "test/accuracy") == ""
    assert interval_words(None, "test/accuracy") == ""


def test_an_accuracy_is_followed_by_that_of_the_largest_class_if_it_says_little():
    assert share_words(COMPARISON, "test/accuracy") == ""
    rare = COMPARISON.model_copy(update={"metric": "test/macro_f1"})
    said = "; always answering the largest class gives 10.3 %"
    assert share_words(rare, "test/accuracy") == said
    assert share_words(rare, "test/macro_f1") == ""


def test_baselines_are_listed_with_their_values():
    words = baseline_words(COMPARISON)
    values = "majority class 10.3 %, gradient-boosted trees 97.2 % (test accuracy)"
    best = "the best baseline, gradient-boosted trees"
    unsure = f"the test samples do not show whether the model or {best}, is better"
    assert words == f"{values}; {unsure}"
    better = COMPARISON.model_copy(update={"verdict": "better"})
    assert baseline_words(better) == f"{values}; the model is better than {best}"
    scores = {"test/macro_f1": 0.4846, "test/auc": 0.5}
    first = BaselineScore(name="majority class", metrics=scores)
    rare = COMPARISON.model_copy(update={"metric": "test/macro_f1", "baselines": [first]})
    said = "majority class 0.485 with AUC 0.500 (test macro f1); the test samples do not show"
    assert baseline_words(rare).startswith(said)
    both = baseline_words(COMPARISON.model_copy(update={"both_perfect": True}))
    assert both == f"{values}; as good as the model: all answers are right"


def test_answers_that_differ_from_those_of_a_baseline_are_counted():
    baselines = [
        BaselineScore(name="majority class", metrics={"test/accuracy": 0.103}),
        BaselineScore(name=IMAGE_BASELINES[0], metrics={"test/accuracy": 0.972}),
    ]
    update = {"baselines": baselines, "best": IMAGE_BASELINES[0]}
    equal = COMPARISON.model_copy(update={**update, "num_different": 3, "num_test": 26})
    assert baseline_words(equal).endswith(", is better (their answers differ for 3 of 26)")
    same = equal.model_copy(update={"num_different": 0})
    assert baseline_words(same).endswith(", is better (both give the same answers)")
    perfect = equal.model_copy(update={"both_perfect": True})
    assert baseline_words(perfect).endswith("; as good as the model: all answers are right")
    assert not perfect.doubt


@pytest.mark.parametrize(("linear", "is_hinted"), [(1.0, True), (0.99, False), (None, True)])
def test_a_test_split_that_even_the_simplest_model_answers_is_doubted(linear, is_hinted):
    known = {"majority class": 0.5, "linear model": linear, "gradient-boosted trees": 1.0}
    scores = [
        BaselineScore(name=name, metrics={} if value is None else {"test/accuracy": value})
        for name, value in known.items()
    ]
    update = {"baselines": scores, "value": 1.0, "both_perfect": True}
    assert (TOO_EASY in baseline_words(COMPARISON.model_copy(update=update))) is is_hinted


@pytest.mark.parametrize(
    ("name", "check"),
    [("linear model", ANSWER_INSIDE), ("linear model on TF-IDF", LIKE_TRAINING)],
)
def test_the_doubt_about_perfect_answers_suits_tables_or_texts(name, check):
    scores = {"majority class": 0.4, name: 1.0}
    baselines = [BaselineScore(name=one, metrics={"test/accuracy": scores[one]}) for one in scores]
    update = {"baselines": baselines, "best": name, "both_perfect": True}
    said = baseline_words(COMPARISON.model_copy(update=update))
    assert said.endswith(f"all answers are right. {TOO_EASY} {check}")


HALF = Decision(probability=0.5, found=2, missed=27, false_alarms=0)
LOWER = Decision(probability=0.125, found=7, missed=22, false_alarms=1)
SAID = (
    "redkiln predict --threshold auto answers fraud from 0.125 on. On the test split this finds 7 "
    "of 29 with 1 false alarm; the usual 0.5 finds 2 of 29 with 0 false alarms"
)
SAME = HALF.model_copy(update={"probability": 0.25})
FACTS = {"class_name": "fraud", "validation_f1": 0.7, "test_f1": 0.6, "test_f1_at_half": 0.2}
AS_HALF = (
    "redkiln predict --threshold auto answers fraud from 0.25 on. On the test split this gives the "
    "same answers as the usual 0.5"
)
ON_FEW = f". It was chosen on only 5 samples of this class. {BY_FOLDS}"
ON_FIVE = "the validation split (5 of class fraud)"
NOTHING = "--threshold auto changes nothing"


@pytest.mark.parametrize(
    ("probability", "decisions", "said", "said_if_rare"),
    [
        (0.125, [HALF, LOWER], f"{SAID}{ON_FEW}", f"{SAID}{ON_FEW}"),
        (
            0.5,
            [HALF, LOWER],
            "",
            f"{NOTHING}: 0.5 already has the highest F1 of fraud on {ON_FIVE}. {BY_FOLDS}",
        ),
        (
            0.25,
            [HALF, SAME],
            "",
            f"{AS_HALF}{ON_FEW}",
        ),
        (0.125, [], "", ""),
    ],
)
def test_the_threshold_is_shown_with_what_it_changes(probability, decisions, said, said_if_rare):
    threshold = Threshold(probability=probability, decisions=decisions, num_of_class=5, **FACTS)
    assert threshold_words(threshold) == said
    assert threshold_words(threshold, is_rare=True) == said_if_rare


@pytest.mark.parametrize(
    ("num", "chosen_on"), [(20, "validation"), (5, "folds"), (0, "validation")]
)
def test_a_threshold_is_doubted_only_if_few_validation_samples_chose_it(num, chosen_on):
    threshold = Threshold(
        probability=0.125, decisions=[HALF, LOWER], num_of_class=num, chosen_on=chosen_on, **FACTS
    )
    assert threshold_words(threshold) == SAID


def test_a_threshold_of_folds_is_not_advised_to_use_folds():
    threshold = Threshold(
        probability=0.5, decisions=[HALF], num_of_class=40, chosen_on="folds", **FACTS
    )
    said = threshold_words(threshold, is_rare=True)
    assert said.endswith("on the held-out samples of all folds (40 of class fraud)")


def test_a_threshold_that_is_worse_on_the_test_split_is_shown_as_such():
    facts = {**FACTS, "test_f1": 0.64, "test_f1_at_half": 0.75}
    said = threshold_words(Threshold(probability=0.125, decisions=[HALF, LOWER], **facts))
    assert said == f"{SAID}. 0.5 has the higher F1, so leave --threshold out"


FEW = [
    Decision(probability=0.5, found=1, missed=5, false_alarms=0),
    Decision(probability=0.125, found=1, missed=5, false_alarms=5),
]
WORSE = {"probability": 0.125, "decisions": FEW, "num_of_class": 57}
WORSE_FACTS = {**FACTS, "test_f1": 0.17, "test_f1_at_half": 0.29}
SIX = "6 test samples of this class do not show which is better; the threshold was chosen on 57"


@pytest.mark.parametrize(
    ("chosen_on", "said"),
    [("validation", f"{SIX} held-out ones. {BY_FOLDS}"), ("folds", f"{SIX} held-out ones")],
)
def test_few_test_samples_do_not_speak_against_a_threshold(chosen_on, said):
    threshold = Threshold(chosen_on=chosen_on, **WORSE, **WORSE_FACTS)
    assert threshold_words(threshold) == (
        "redkiln predict --threshold auto answers fraud from 0.125 on. On the test split this "
        "finds 1 of 6 with 5 false alarms; the usual 0.5 finds 1 of 6 with 0 false alarms. "
        f"{said}"
    )


@pytest.mark.parametrize(("at", "half", "is_worse"), [(0.64, 0.56, False), (0.56, 0.64, True)])
def test_folds_decide_whether_a_threshold_is_better(at, half, is_worse):
    folds = CrossValidation(folds=[{"macro_f1": half, "macro_f1_at_threshold": at}] * 2)
    threshold = Threshold(chosen_on="folds", **WORSE, **WORSE_FACTS)
    said = threshold_words(threshold, folds=folds)
    assert f"the folds, macro F1 is {at} with such a threshold and {half} with 0.5" in said
    assert said.endswith("so leave --threshold out") is is_worse
    assert "which is better" not in said
    of_one_class = CrossValidation(folds=[{"macro_f1": half}, *folds.folds])
    assert SIX in threshold_words(threshold, folds=of_one_class)
