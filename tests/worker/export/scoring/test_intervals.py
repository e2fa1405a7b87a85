from functools import partial

import numpy as np
import pytest

from redkiln.predict.compare import wilson
from redkiln.predict.labelled.macro_f1 import macro_f1_of_few
from worker.export.scoring.class_metrics import METRICS
from worker.export.scoring.intervals import average, bootstrap, newcombe


@pytest.mark.parametrize(
    ("share", "num", "expected"),
    [(0.5, 100, (0.4038, 0.5962)), (1.0, 10, (0.7225, 1.0)), (0.0, 10, (0.0, 0.2775))],
)
def test_the_interval_of_a_share_is_wilsons(share, num, expected):
    assert wilson(share, num) == pytest.approx(expected, abs=1e-4)


def test_a_bootstrap_of_a_mean_agrees_with_its_standard_error():
    values = np.random.default_rng(1).normal(size=400)
    low, high = bootstrap(lambda weights: average(values, weights), 400)
    error = values.std() / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.3 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.3 * error)


def test_a_bootstrap_that_would_take_long_is_left_out():
    assert bootstrap(lambda weights: weights[:, 0], 10_000, parts=1000) is None


def test_a_bootstrap_leaves_out_a_metric_that_is_undefined():
    assert bootstrap(lambda weights: np.full(len(weights), np.nan), 10) is None


def test_a_bootstrap_of_equal_values_claims_no_certainty():
    assert bootstrap(lambda weights: average(np.ones(10), weights), 10) is None


@pytest.mark.parametrize(("area", "counts"), [(0.9, (3, 300)), (0.75, (300, 3)), (1.0, (5, 40))])
def test_the_interval_of_an_area_ends_where_its_standard_error_no_longer_allows_it(area, counts):
    def error(true):
        pairs, others = counts[0] * counts[1], sum(counts) / 2 - 1
        one, other = true / (2 - true), 2 * true**2 / (1 + true)
        return np.sqrt((true * (1 - true) + others * (one + other - 2 * true**2)) / pairs)

    low, high = newcombe(area, *counts)
    assert low == pytest.approx(area - 1.959964 * error(low), abs=1e-3)
    assert low < area <= high <= 1
    if high < 1:
        assert high == pytest.approx(area + 1.959964 * error(high), abs=1e-3)
    assert newcombe(1 - area, *counts) == pytest.approx((1 - high, 1 - low))


def test_the_interval_of_an_area_holds_the_true_one_also_with_three_samples():
    generator, true = np.random.default_rng(0), 0.9  # of normal scores 1.8124 apart
    num_held = 0
    for _ in range(200):
        rare, usual = generator.normal(1.8124, size=3), generator.normal(size=100)
        low, high = newcombe(float((rare[:, None] > usual).mean()), 3, 100)
        num_held += low <= true <= high
    assert num_held >= 180


def test_the_interval_of_macro_f1_knows_that_few_samples_may_be_found_next_time():
    # None of 5 was found; on new samples this model had a macro F1 of 0.591.
    low, high = macro_f1_of_few(np.array([[195, 0], [5, 0]]))
    assert low <= 0.4937 < 0.591 < high < 0.75
    perfect = macro_f1_of_few(np.array([[195, 0], [0, 5]]))
    assert perfect[0] < 0.95
    assert perfect[1] == 1.0


def test_with_more_samples_the_interval_of_macro_f1_is_that_of_resamples():
    matrix = np.array([[900, 40], [30, 30]])
    true = np.repeat([0, 0, 1, 1], matrix.ravel())
    predicted = np.repeat([0, 1, 0, 1], matrix.ravel())
    logits = np.eye(2, dtype=np.float32)[predicted]
    by_resamples = bootstrap(partial(METRICS["macro_f1"], logits, true), len(true))
    np.testing.assert_allclose(macro_f1_of_few(matrix), by_resamples, atol=0.02)
