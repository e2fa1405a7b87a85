import numpy as np
import pytest

from worker.export.scoring.calibration import measure_calibration


def logits_of(chances):
    """Logits of two classes with these probabilities of the first one."""
    first = np.log(np.asarray(chances) / (1 - np.asarray(chances)))
    return np.stack([first, np.zeros_like(first)], axis=1).astype(np.float32)


def test_right_answers_as_frequent_as_their_probability_have_no_error():
    targets = np.array([0] * 17 + [1] * 3)
    found = measure_calibration(logits_of([0.85] * 20), targets)
    assert found.error == pytest.approx(0, abs=1e-6)
    (only,) = found.bins
    assert (only.num, only.accuracy) == (20, 0.85)
    assert (only.low, only.high) == (0.8, 0.9)


def test_the_error_is_the_mean_distance_of_all_samples():
    # Six samples at 0.95, of which three are right, and two at 0.65, which are both right.
    outputs = logits_of([0.95] * 6 + [0.65] * 2)
    targets = np.array([0, 0, 0, 1, 1, 1, 0, 0])
    found = measure_calibration(outputs, targets)
    assert found.error == pytest.approx((6 * 0.45 + 2 * 0.35) / 8, abs=1e-6)
    assert [(one.num, one.accuracy) for one in found.bins] == [(2, 1.0), (6, 0.5)]


def test_certain_answers_are_in_the_last_range():
    found = measure_calibration(np.array([[500.0, 0.0]], np.float32), np.array([0]))
    assert [(one.low, one.high) for one in found.bins] == [(0.9, 1.0)]


def test_the_table_names_every_range_with_samples():
    text = measure_calibration(logits_of([0.95, 0.65]), np.array([0, 1])).describe(noun="images")
    assert "| 0.6 to 0.7 | 1 | 0.650 | 0.000 |" in text
    assert "| 0.9 to 1.0 | 1 | 0.950 | 1.000 |" in text
    assert "calibration error: 0.3500" in text
