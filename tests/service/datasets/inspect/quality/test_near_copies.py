"""Texts with nearly the same words, and rows that were rounded."""

import numpy as np
import pyarrow as pa
import pytest

from service.datasets.inspect.quality import near_copies
from service.datasets.inspect.quality.near_copies import group_near_rows, group_near_texts

LONG = "the room was clean and quiet but breakfast started late and the coffee was cold"
CHINESE = "这部电影非常精彩演员的表演也很出色我还想和朋友们一起再看一遍"


def are_together(numbers):
    return numbers[0] == numbers[1]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (LONG, f"{LONG} again", True),
        (LONG, LONG.replace("late", "very late"), True),
        (CHINESE, f"{CHINESE}了", True),
        ("质量很好。物流也快。值得推荐", "质量很好。物流也快。值得推荐了", True),
        (LONG, "the staff was friendly and helpful but parking was far away and expensive", False),
        (CHINESE, "这家餐厅的菜很难吃服务员的态度也不好以后再也不会来了", False),
        ("good film", "bad film", False),
        ("!!!", "???", False),
    ],
)
def test_texts_with_nearly_the_same_words_are_together(one, other, alike):
    assert are_together(group_near_texts([one, other])) == alike


def test_nearly_equal_texts_are_found_among_many():
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(500)]
    texts = [" ".join(rng.choice(words, 20)) for _ in range(400)]
    texts += [f"{text} more" for text in texts[:40]]
    numbers = group_near_texts(texts)
    assert (numbers[400:] == numbers[:40]).sum() >= 38
    assert len(np.unique(numbers)) <= 402


def test_only_the_first_texts_of_a_large_set_are_compared(monkeypatch):
    monkeypatch.setattr(near_copies, "MOST_TEXTS", 2)
    numbers = group_near_texts([LONG, "another text", LONG])
    assert len(np.unique(numbers)) == 3


def make_table(num_columns, rows=300):
    values = np.random.default_rng(0).normal(size=(rows, num_columns))
    values[1] = values[0] + 1e-5
    return pa.table({f"x{place}": column for place, column in enumerate(values.T)})


def test_rows_that_differ_by_rounding_are_together():
    table = make_table(4)
    numbers = group_near_rows(table, table.column_names)
    assert are_together(numbers)
    assert len(np.unique(numbers)) == 299


def test_rows_of_few_numbers_may_agree_by_chance_and_are_not_compared():
    table = make_table(2)
    assert group_near_rows(table, table.column_names) is None


def test_missing_values_are_equal_to_each_other_only():
    table = make_table(4).to_pydict()
    table["x3"][1] = None
    numbers = group_near_rows(pa.table(table), list(table))
    assert not are_together(numbers)


def test_numbers_that_are_too_large_to_be_rounded_are_compared_as_they_are():
    values = np.random.default_rng(0).normal(size=(300, 4)) * 1e200
    table = pa.table({f"x{place}": column for place, column in enumerate(values.T)})
    assert len(np.unique(group_near_rows(table, table.column_names))) == 300
