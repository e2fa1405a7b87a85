import pytest
import torch

from worker.hardware.selftest.sgd import DTYPES
from worker.hardware.selftest.tolerance import UNIT_ROUNDOFFS, allowed_error


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_the_roundoffs_match_the_types(precision):
    assert UNIT_ROUNDOFFS[precision] == torch.finfo(DTYPES[precision]).eps / 2


def test_longer_sums_and_deeper_chains_may_differ_more():
    short = allowed_error("fp32", reduction_length=16)
    assert allowed_error("fp32", reduction_length=1600) > 5 * short
    assert allowed_error("fp32", reduction_length=16, depth=4) == pytest.approx(2 * short)
    assert allowed_error("bf16", reduction_length=16) > allowed_error("fp16", reduction_length=16)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_allowed_errors_are_far_smaller_than_wrong_numbers(precision):
    assert allowed_error(precision, reduction_length=16384, depth=64) < 0.5
