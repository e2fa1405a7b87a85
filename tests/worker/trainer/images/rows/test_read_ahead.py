"""How deep batches are read ahead, by what steps waited for them."""

import contextlib

import numpy as np
import torch

from worker.trainer.images.rows.pixel_rows import ArrayRows
from worker.trainer.images.rows.prefetch import Prefetch
from worker.trainer.images.rows.read_ahead import WINDOW, ReadAhead


def run(shares, *, depth=2, most=16):
    """Depths after windows in which steps waited for these shares of a second each."""
    settled = []
    ahead = ReadAhead(depth, most=most, on_settled=settled.append)
    now, depths = 0.0, []
    for share in shares:
        # The first batch of a window only starts its clock.
        for _ in range(WINDOW + 1):
            now += 1.0
            ahead.note(waited_seconds=share, now=now)
        depths.append(ahead.depth)
    return depths, settled


def test_the_depth_stays_if_steps_do_not_wait():
    assert run([0.01, 0.5]) == ([2, 2], [2])


def test_the_depth_grows_while_it_helps():
    assert run([0.5, 0.2, 0.01]) == ([4, 8, 8], [8])


def test_a_depth_that_does_not_help_is_reverted():
    # Reading itself is what is slow.
    assert run([0.5, 0.49, 0.0]) == ([4, 2, 2], [2])
    assert run([0.5, 0.3, 0.29]) == ([4, 8, 4], [4])


def test_memory_limits_the_depth():
    assert run([0.5, 0.3], most=3) == ([3, 3], [3])
    assert run([0.5], most=1) == ([1], [1])
    assert run([0.0], depth=12, most=4) == ([4], [4])


def test_waiting_for_the_first_batch_after_a_jump_does_not_count():
    settled = []
    ahead = ReadAhead(on_settled=settled.append)
    now = 0.0
    for _ in range(3 * WINDOW):
        ahead.start_over()
        now += 1.0
        ahead.note(waited_seconds=1.0, now=now)
    assert (ahead.depth, settled) == (2, [])


def test_the_depth_can_grow_without_restarting_the_thread():
    planes = np.random.default_rng(0).integers(0, 256, (40, 3, 4, 4), dtype=np.uint8)
    requests = [(number, [number]) for number in range(40)]
    ahead = Prefetch(
        ArrayRows(planes),
        iter(requests),
        batch_size=1,
        image_shape=(3, 4, 4),
        device=torch.device("cpu"),
        depth=1,
    )
    with contextlib.closing(ahead):
        for number in range(40):
            ahead.deepen(1 + number // 8)
            name, pixels = ahead.next()
            assert name == number
            assert np.array_equal(pixels.numpy()[0], planes[number])
