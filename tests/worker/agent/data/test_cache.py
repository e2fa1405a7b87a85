import os
import threading

import pytest

from worker.agent.data.cache import CacheFull, DatasetCache


def fill_with(size):
    def fill(folder):
        (folder / "data").write_bytes(b"x" * size)

    return fill


def put(cache, key, size):
    with cache.hold(key, size_bytes=size, fill=fill_with(size)) as folder:
        return folder


def keys(root):
    return {path.name for path in root.iterdir()}


def test_an_entry_is_filled_once(tmp_path):
    cache = DatasetCache(tmp_path, budget_bytes=100)
    fills = []

    def fill(folder):
        fills.append(folder)

    for _ in range(2):
        with cache.hold("a", size_bytes=1, fill=fill) as folder:
            assert folder == tmp_path / "a"
    assert len(fills) == 1


def test_the_least_recently_used_entry_is_removed(tmp_path):
    cache = DatasetCache(tmp_path, budget_bytes=100)
    for number, key in enumerate("abc"):
        path = put(cache, key, 30)
        os.utime(path, (number, number))
    os.utime(tmp_path / "a", (10, 10))
    put(cache, "d", 30)
    assert keys(tmp_path) == {"a", "c", "d"}


def test_an_entry_in_use_is_kept(tmp_path):
    cache = DatasetCache(tmp_path, budget_bytes=100)
    with cache.hold("a", size_bytes=60, fill=fill_with(60)):
        os.utime(tmp_path / "a", (0, 0))
        with pytest.raises(CacheFull, match="REDKILN_CACHE_BYTES"):
            put(cache, "b", 60)
    put(cache, "b", 60)
    assert keys(tmp_path) == {"b"}


def test_a_failed_fill_keeps_its_part_for_the_next_try(tmp_path):
    cache = DatasetCache(tmp_path, budget_bytes=100)

    def broken(folder):
        (folder / "data").write_bytes(b"half")
        raise OSError("cut")

    with pytest.raises(OSError, match="cut"), cache.hold("a", size_bytes=8, fill=broken):
        pass
    assert not (tmp_path / "a").exists()

    def go_on(folder):
        assert (folder / "data").read_bytes() == b"half"

    with cache.hold("a", size_bytes=8, fill=go_on) as folder:
        assert folder.exists()


def test_two_slots_that_need_the_same_set_fetch_it_once(tmp_path):
    cache = DatasetCache(tmp_path, budget_bytes=100)
    fills = []
    started, go = threading.Event(), threading.Event()

    def slow(folder):
        fills.append(folder)
        started.set()
        assert go.wait(60)

    def hold():
        with cache.hold("a", size_bytes=1, fill=slow):
            pass

    threads = [threading.Thread(target=hold) for _ in range(2)]
    threads[0].start()
    assert started.wait(60)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join()
    assert len(fills) == 1
