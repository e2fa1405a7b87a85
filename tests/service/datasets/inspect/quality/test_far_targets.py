import numpy as np
import pytest

from service.datasets.inspect.quality.far_targets import check_far_targets


def check(values):
    return check_far_targets(
        np.array(values, float), name="price", locate=lambda row: f"line {row + 2}"
    )


def test_a_value_that_is_far_from_all_others_is_named_with_its_line():
    prices = [*np.linspace(14, 1725, 210), 2_400_000, 300]
    (warning,) = check(prices)
    assert warning.code == "far_target"
    assert (
        "2.4e+06 (line 212) is far from all other values, which are 14 to 1725" in warning.message
    )


def test_several_far_values_are_named_together():
    (warning,) = check([*range(100), -90_000, 2_400_000])
    assert "2.4e+06 (line 103), -90000 (line 102) are far" in warning.message


@pytest.mark.parametrize("sigma", [1.0, 1.5])
def test_values_with_a_long_tail_are_no_mistakes(sigma):
    rng = np.random.default_rng(0)
    assert not any(check(rng.lognormal(0, sigma, 400)) for _ in range(100))


def test_a_value_that_most_rows_have_and_few_rows_do_not_disturb():
    assert check([0] * 50) == []
    assert check([5]) == []
    assert check([1, 2]) == []
    assert check([*[0] * 500, 1, 2, 3]) == []
