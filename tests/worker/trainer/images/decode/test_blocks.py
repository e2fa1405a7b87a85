from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from worker.trainer.images.decode.blocks import BLOCK_ROWS, BlockQueue


@pytest.mark.parametrize("num_rows", [0, 1, BLOCK_ROWS, 7 * BLOCK_ROWS + 3])
def test_every_row_is_taken_by_exactly_one_process(tmp_path, num_rows):
    def take_some(_number):
        with BlockQueue(tmp_path, num_rows) as queue:
            return [row for rows in iter(queue.take, range(num_rows, num_rows)) for row in rows]

    with ThreadPoolExecutor(4) as askers:
        taken = Counter(row for rows in askers.map(take_some, range(4)) for row in rows)
    assert taken == Counter(range(num_rows))


def test_after_take_all_nothing_is_left_for_the_others(tmp_path):
    with (
        BlockQueue(tmp_path, 5 * BLOCK_ROWS) as mine,
        BlockQueue(tmp_path, 5 * BLOCK_ROWS) as other,
    ):
        assert len(other.take()) == BLOCK_ROWS
        mine.take_all()
        assert not other.take()
        assert not mine.take()


def test_finished_blocks_of_every_process_are_counted(tmp_path):
    num_rows = BLOCK_ROWS + 1
    with BlockQueue(tmp_path, num_rows) as mine, BlockQueue(tmp_path, num_rows) as other:
        other.mark_done()
        assert mine.num_done() == BLOCK_ROWS
        mine.mark_done()
        assert other.num_done() == num_rows
