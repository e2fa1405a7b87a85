import tracemalloc

import numpy as np
import pytest

from worker.trainer.images.decode.facts import (
    FACTS_BLOCK,
    FACTS_ROWS,
    FACTS_VALUES,
    choose_facts_rows,
    count_levels,
)


def test_facts_of_a_large_set_come_from_evenly_spaced_rows():
    rows = choose_facts_rows(10 * FACTS_ROWS, num_bytes=3)
    assert rows[:3] == [0, 10, 20]
    assert len(set(rows)) == FACTS_ROWS
    assert choose_facts_rows(5, num_bytes=3) == [0, 1, 2, 3, 4]
    assert len(choose_facts_rows(10**6, num_bytes=FACTS_VALUES // 1000)) == 1000
    assert len(choose_facts_rows(10**6, num_bytes=10**9)) == FACTS_BLOCK


@pytest.mark.parametrize(("num", "side"), [(0, 4), (7, 1), (3, 12)])
def test_grey_levels_are_counted_by_channel(num, side):
    rng = np.random.default_rng(0)
    planes = rng.integers(0, 256, (num, 3, side, side), dtype=np.uint8)
    counts = [np.bincount(planes[:, channel].reshape(-1), minlength=256) for channel in range(3)]
    assert np.array_equal(count_levels(planes, range(num)), counts)


def test_large_images_are_counted_a_few_at_a_time():
    planes = np.random.default_rng(0).integers(0, 256, (20, 3, 700, 700), dtype=np.uint8)
    tracemalloc.start()
    levels = count_levels(planes, range(1, 20, 2))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < planes.nbytes / 4
    for channel in range(3):
        counts = np.bincount(planes[1::2, channel].reshape(-1), minlength=256)
        assert np.array_equal(levels[channel], counts)
