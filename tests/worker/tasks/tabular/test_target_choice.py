import numpy as np
import pytest

from worker.tasks.tabular.target_choice import LEAST_ROWS, find_log_reason
from worker.trainer.tables.table import learn_preparation, load_table

NUM = 300


def choose(write_table, draw, num=NUM):
    rng = np.random.default_rng(0)
    numbers, targets = draw(rng, num)
    columns = {f"x{place}": values for place, values in enumerate(numbers.T)}
    options = {"targets": targets, "task": "tabular-regression", "num_test": 20}
    table = load_table(write_table(columns=columns, target="price", **options))
    train = np.arange(num - 20)
    return find_log_reason(table, learn_preparation(table), train)


def draw_product(rng, num):
    numbers = rng.normal(size=(num, 3))
    return numbers, np.exp(5 + numbers.sum(axis=1) + 0.1 * rng.normal(size=num))


def draw_sum(rng, num):
    """As skewed as the product, because its items are."""
    numbers = np.exp(rng.normal(size=(num, 3)))
    return numbers, 1 + numbers.sum(axis=1) + 0.1 * rng.normal(size=num)


def draw_normal(rng, num):
    numbers = rng.normal(size=(num, 3))
    return numbers, 50 + numbers.sum(axis=1)


def draw_product_with_zeros(rng, num):
    numbers, targets = draw_product(rng, num)
    return numbers, np.where(np.arange(num) % 50, targets, 0.0)


def test_the_logarithm_of_a_product_is_chosen_with_both_errors(write_table):
    reason = choose(write_table, draw_product)
    assert reason.startswith("simple models predict held-out training rows with an RMSE of ")
    assert reason.endswith("if they learn price itself")


@pytest.mark.parametrize("draw", [draw_sum, draw_normal, draw_product_with_zeros])
def test_other_targets_are_learnt_themselves(write_table, draw):
    assert choose(write_table, draw) is None


def test_few_rows_choose_nothing(write_table):
    assert choose(write_table, draw_product, num=LEAST_ROWS + 19) is None
