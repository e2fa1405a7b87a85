from functools import partial

import numpy as np
import pytest

from worker.export.scoring.class_metrics import METRICS
from worker.export.scoring.paired import judge_right, judge_swapped, stack
from worker.export.scoring.regression import rmse


@pytest.mark.parametrize(
    ("won", "lost", "expected"),
    [
        (0, 0, "equal"), (1, 0, "equal"), (5, 0, "equal"), (6, 0, "better"), (0, 6, "worse"),
        (9, 2, "equal"), (10, 2, "better"), (2, 10, "worse"), (40, 30, "equal"),
    ],
)  # fmt: skip
def test_models_differ_if_the_binomial_test_of_their_discordant_pairs_is_sure(won, lost, expected):
    ours = np.array([True] * won + [False] * lost + [True] * 20)
    theirs = np.array([False] * won + [True] * lost + [True] * 20)
    assert judge_right(ours, theirs) == expected


@pytest.mark.parametrize(("num", "expected"), [(5, "equal"), (7, "better")])
def test_swaps_of_answers_judge_the_accuracy_as_mcnemars_test_does(num, expected):
    labels = np.zeros(40, np.int64)
    ours, theirs = np.tile(np.float32([1, 0]), (40, 1)), np.tile(np.float32([1, 0]), (40, 1))
    theirs[:num] = [0, 1]
    both = partial(METRICS["accuracy"], stack(ours, theirs), stack(labels, labels))
    assert judge_swapped(both, 40) == expected


def test_few_samples_of_a_rare_class_decide_nothing():
    labels = np.array([1] * 4 + [0] * 300)
    none = np.tile(np.float32([1, 0]), (304, 1))
    found = none.copy()
    found[:4] = [0, 1]
    both = partial(METRICS["macro_f1"], stack(found, none), stack(labels, labels))
    assert judge_swapped(both, 304) == "equal"


def judge_values(ours, theirs, targets):
    both = partial(rmse, stack(ours, theirs), stack(targets, targets))
    return judge_swapped(both, len(targets), is_error=True)


def test_equally_good_models_are_seldom_called_different():
    draw = np.random.default_rng(0).normal
    noise = [(draw(size=26), draw(size=26), draw(size=26)) for _ in range(200)]
    verdicts = [judge_values(same + one, same + other, np.zeros(26)) for same, one, other in noise]
    assert sum(verdict != "equal" for verdict in verdicts) <= 20


def test_an_error_that_is_surely_smaller_is_better_and_too_many_samples_have_no_verdict():
    targets = np.random.default_rng(0).normal(size=26)
    near, far = targets + 0.1, targets + np.linspace(0.1, 1, 26)
    assert (judge_values(near, far, targets), judge_values(far, near, targets)) == (
        "better",
        "worse",
    )
    assert judge_values(near, near, targets) == "equal"
    assert judge_swapped(lambda weights: weights[:, 0], 10_000, parts=1000) is None
    assert judge_swapped(lambda weights: weights[:, 0] * np.nan, 10) is None
