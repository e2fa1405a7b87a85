import pytest

from redkiln.cli.view.comparison import baseline_words, interval_words, threshold_words
from redkiln.views.comparison import BaselineScore, Comparison, Decision, Threshold

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


def test_baselines_are_listed_with_their_values():
    words = baseline_words(COMPARISON)
    assert words == "majority class 10.3 %, gradient-boosted trees 97.2 % (test accuracy)"
    scores = {"test/macro_f1": 0.4846, "test/auc": 0.5}
    first = BaselineScore(name="majority class", metrics=scores)
    rare = COMPARISON.model_copy(update={"metric": "test/macro_f1", "baselines": [first]})
    assert baseline_words(rare) == "majority class 0.485 with AUC 0.500 (test macro f1)"
    both = baseline_words(COMPARISON.model_copy(update={"both_perfect": True}))
    assert both == f"{words}; as good as the model: all answers are right"


HALF = Decision(probability=0.5, found=2, missed=7, false_alarms=0)
LOWER = Decision(probability=0.125, found=7, missed=2, false_alarms=1)
SAID = (
    "answering fraud from a probability of 0.125 on finds 7 of 9 with 1 false alarm; from 0.5 on, "
    "it finds 2 of 9 with 0 false alarms (test split; redkiln predict --threshold auto)"
)


@pytest.mark.parametrize(
    ("probability", "decisions", "said"),
    [
        (
            0.125,
            [HALF, LOWER],
            SAID,
        ),
        (0.5, [HALF, LOWER], ""),
        (0.25, [HALF, HALF.model_copy(update={"probability": 0.25})], ""),
        (0.125, [], ""),
    ],
)
def test_a_better_threshold_is_shown_with_what_it_finds(probability, decisions, said):
    facts = {"class_name": "fraud", "validation_f1": 0.7, "test_f1": 0.6, "test_f1_at_half": 0.2}
    threshold = Threshold(probability=probability, decisions=decisions, **facts)
    assert threshold_words(threshold) == said


def test_a_threshold_that_is_worse_on_the_test_split_is_shown_as_such():
    facts = {"class_name": "fraud", "validation_f1": 0.7, "test_f1": 0.64, "test_f1_at_half": 0.75}
    said = threshold_words(Threshold(probability=0.125, decisions=[HALF, LOWER], **facts))
    assert said.endswith("--threshold auto uses 0.125, but 0.5 has a higher F1 here)")
