"""Room that lets a full disk be emptied."""

import os
from types import SimpleNamespace

import pytest

from service.storage.reserve import Reserve

SIZE = 4096


@pytest.fixture
def reserve(tmp_path):
    return Reserve(tmp_path / "reserve", size_bytes=SIZE)


@pytest.fixture
def free(monkeypatch):
    """Sets how much of the disk is free."""

    def set_free(num_bytes):
        status = SimpleNamespace(f_bavail=num_bytes, f_frsize=1)
        monkeypatch.setattr(os, "statvfs", lambda _path: status)

    return set_free


def test_it_takes_room_that_a_release_gives_back_once(reserve, tmp_path, free):
    free(2 * SIZE)
    assert reserve.restore()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= SIZE
    assert reserve.restore()
    assert [reserve.release(), reserve.release()] == [True, False]
    assert not (tmp_path / "reserve").exists()


def test_it_leaves_others_as_much_as_it_takes(reserve, tmp_path, free):
    free(2 * SIZE - 1)
    assert not reserve.restore()
    assert not (tmp_path / "reserve").exists()


def test_a_start_gets_it_only_on_a_full_disk(reserve, free):
    free(2 * SIZE)
    reserve.restore()
    assert not reserve.release_if_full()
    free(SIZE - 1)
    assert reserve.release_if_full()


def test_a_file_system_that_cannot_reserve_leaves_no_file(reserve, tmp_path, free, monkeypatch):
    def fail(*_):
        raise OSError(95, "Operation not supported")

    free(2 * SIZE)
    monkeypatch.setattr(os, "posix_fallocate", fail)
    assert not reserve.restore()
    assert not (tmp_path / "reserve").exists()
