import numpy as np
import pytest

from redkiln.predict.labelled.macro_f1 import count_pairs, find_interval, macro_f1


def test_macro_f1_is_the_mean_over_the_classes_that_occur_or_were_answered():
    matrix = count_pairs([(0, 0), (0, 1), (1, 1), (1, 1)], num_classes=4)
    assert matrix[:2, :2].tolist() == [[1, 1], [0, 2]]
    assert macro_f1(matrix) == pytest.approx((2 / 3 + 4 / 5) / 2)


def test_the_interval_of_macro_f1_is_wide_with_few_samples_of_a_class():
    many = np.array([[900, 10], [40, 60]])
    few = np.array([[90, 1], [4, 6]])
    widths = []
    for matrix in (many, few):
        low, high = find_interval(matrix)
        assert low < macro_f1(matrix) < high
        widths.append(high - low)
    assert 2 * widths[0] < widths[1]
    low, high = find_interval(np.kron(np.eye(3, dtype=np.int64), 50 * np.ones((1, 1), np.int64)))
    assert low == high == 1
