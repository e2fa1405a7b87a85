import contextlib
import errno
import os
import threading

import numpy as np
import pytest
import torch

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.trainer.images.rows.pixel_rows import ArrayRows, FileRows
from worker.trainer.images.rows.prefetch import Prefetch

CPU = torch.device("cpu")
SHAPE = (3, 4, 4)


def planes(num=10):
    return np.random.default_rng(0).integers(0, 256, (num, *SHAPE), dtype=np.uint8)


@pytest.fixture
def array_path(tmp_path):
    path = tmp_path / "images.npy"
    np.save(path, planes())
    return path


def prefetch(rows, requests, *, depth=2):
    return Prefetch(rows, iter(requests), batch_size=4, image_shape=SHAPE, device=CPU, depth=depth)


@pytest.mark.parametrize("kind", ["file", "array"])
def test_rows_are_read_in_the_requested_order(array_path, kind):
    out = np.empty((3, *SHAPE), dtype=np.uint8)
    rows = FileRows(array_path) if kind == "file" else ArrayRows(planes())
    with contextlib.closing(rows):
        rows.read([7, 0, 7], out)
    assert np.array_equal(out, planes()[[7, 0, 7]])


def test_batches_come_in_order_with_their_names_until_none(array_path):
    requests = [("a", [1, 2, 3, 4]), ("b", [9]), ("c", [0, 5])]
    with (
        contextlib.closing(FileRows(array_path)) as rows,
        contextlib.closing(prefetch(rows, requests)) as ahead,
    ):
        for name, expected in requests:
            found, pixels = ahead.next()
            assert found == name
            assert np.array_equal(pixels.numpy(), planes()[expected])
        assert ahead.next() is None
        assert ahead.next() is None


def test_a_batch_stays_valid_until_the_next_one_is_requested(array_path):
    requests = [(number, [number] * 4) for number in range(8)]
    with (
        contextlib.closing(FileRows(array_path)) as rows,
        contextlib.closing(prefetch(rows, requests, depth=1)) as ahead,
    ):
        for number in range(8):
            _, pixels = ahead.next()
            assert np.array_equal(pixels.numpy(), planes()[[number] * 4])


def test_reading_stops_when_all_buffers_are_full():
    read = []
    enough = threading.Event()

    class Counting(ArrayRows):
        def read(self, rows, out):
            read.append(rows)
            if len(read) == 3:
                enough.set()
            super().read(rows, out)

    with contextlib.closing(prefetch(Counting(planes()), [(n, [0]) for n in range(50)])):
        assert enough.wait(60)
        threading.Event().wait(0.05)
        assert len(read) == 3


def test_a_truncated_file_fails_the_request_and_names_the_row(array_path):
    with contextlib.closing(FileRows(array_path)) as rows:
        os.truncate(array_path, array_path.stat().st_size - 10)
        with contextlib.closing(prefetch(rows, [("good", [0]), ("bad", [3, 9])])) as ahead:
            assert ahead.next()[0] == "good"
            for _ in range(2):
                with pytest.raises(TrainingFailed, match="row 9 of the decoded images") as caught:
                    ahead.next()
            assert str(array_path) in caught.value.failure.message
            assert caught.value.failure.code is FailureCode.DATASET_UNAVAILABLE


def test_a_disk_that_disappears_fails_with_file_and_row(array_path, monkeypatch):
    def vanished(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", vanished)
    with (
        contextlib.closing(FileRows(array_path)) as rows,
        contextlib.closing(prefetch(rows, [("a", [4])])) as ahead,
        pytest.raises(TrainingFailed, match=r"row 4 .*Input/output error"),
    ):
        ahead.next()


def test_a_missing_file_fails_with_its_name(tmp_path):
    with pytest.raises(TrainingFailed, match="cannot be read"):
        FileRows(tmp_path / "images.npy")


def test_closing_stops_the_thread_even_if_requests_never_end(array_path):
    def forever():
        while True:
            yield "again", [0, 1]

    before = threading.active_count()
    rows = FileRows(array_path)
    ahead = prefetch(rows, forever())
    ahead.next()
    ahead.close()
    rows.close()
    assert threading.active_count() == before
