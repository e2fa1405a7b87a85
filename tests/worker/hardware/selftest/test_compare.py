import math

import torch

from worker.hardware.selftest.compare import compare


def test_the_error_is_relative_to_the_right_numbers():
    want = torch.tensor([3.0, -4.0], dtype=torch.float64)
    found = compare([torch.tensor([3.0, -4.5])], [want])
    assert found.max_abs == 0.5
    assert found.max_rel == 0.5 / math.sqrt(12.5)
    assert (found.zeros_ratio, found.nan_count) == (0, 0)


def test_the_worst_of_several_results_counts():
    right = torch.ones(4, dtype=torch.float64)
    found = compare([torch.ones(4), torch.tensor([0.0, 0.0, 1.0, 1.0])], [right, right])
    assert found.max_abs == 1
    assert found.zeros_ratio == 0.5


def test_non_finite_numbers_are_counted_and_have_no_error():
    got = torch.tensor([1.0, float("nan"), float("inf")])
    found = compare([got], [torch.ones(3, dtype=torch.float64)])
    assert (found.nan_count, found.max_abs, found.max_rel) == (2, None, None)
