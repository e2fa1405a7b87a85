import numpy as np
import pytest

from worker.trainer.images import decoded_facts
from worker.trainer.images.decoded_facts import (
    FACTS_BLOCK,
    FACTS_ROWS,
    FACTS_VALUES,
    choose_facts_rows,
)


def test_facts_of_a_large_set_are_those_of_rows_from_all_over_it():
    rows = choose_facts_rows(10 * FACTS_ROWS, num_bytes=3)
    assert rows[:3] == [0, 10, 20]
    assert len(set(rows)) == FACTS_ROWS
    assert choose_facts_rows(5, num_bytes=3) == [0, 1, 2, 3, 4]
    assert len(choose_facts_rows(10**6, num_bytes=FACTS_VALUES // 1000)) == 1000
    assert len(choose_facts_rows(10**6, num_bytes=10**9)) == FACTS_BLOCK


@pytest.mark.parametrize("num", [0, 7, 1000])
def test_grey_levels_are_counted(num):
    values = np.random.default_rng(0).integers(0, 256, num, dtype=np.uint8)
    assert np.array_equal(decoded_facts._count_levels(values), np.bincount(values, minlength=256))
