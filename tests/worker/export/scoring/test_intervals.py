import numpy as np
import pytest

from redkiln.predict.compare import wilson
from worker.export.scoring.intervals import average, bootstrap


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
