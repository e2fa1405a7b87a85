import os

import pytest

from redkiln.tasks.script import Limits
from worker.script.bounds.limits import LimitWatch, find_excess
from worker.script.bounds.processes import Found

LIMITS = Limits(memory_bytes=2**30, processes=8, disk_bytes=2**30)


@pytest.mark.parametrize(
    ("found", "disk_bytes", "words"),
    [
        (Found(memory_bytes=2**30 + 1), 0, "main memory, but script.limits.memory_bytes is"),
        (Found(num_threads=9), 0, "9 processes and threads, but script.limits.processes is 8"),
        (Found(), 2**30 + 1, "disk space, but script.limits.disk_bytes is"),
    ],
)
def test_an_excess_names_the_use_and_the_field(found, disk_bytes, words):
    assert words in find_excess(LIMITS, found, disk_bytes=disk_bytes)


def test_a_script_may_use_exactly_what_its_limits_allow():
    found = Found(memory_bytes=2**30, num_threads=8)
    assert find_excess(LIMITS, found, disk_bytes=2**30) is None


def test_a_watch_measures_the_scripts_folders(tmp_path):
    watch = LimitWatch(LIMITS.model_copy(update={"disk_bytes": 0}), tmp_path)
    (tmp_path / "file").write_bytes(bytes(5000))
    failure = watch.check(Found())
    assert failure.code == "over_limit"
    assert "disk space" in failure.message


def test_a_watch_counts_files_without_a_name(tmp_path):
    watch = LimitWatch(LIMITS.model_copy(update={"disk_bytes": 10**6}), tmp_path)
    number = os.memfd_create("x")
    try:
        os.write(number, bytes(10**6 + 1))
        assert "disk space" in watch.check(Found(pids=(os.getpid(),))).message
    finally:
        os.close(number)


def test_a_process_that_hides_its_files_at_two_looks_ends_the_script(tmp_path, monkeypatch):
    watch, hidden = LimitWatch(LIMITS, tmp_path), set()
    monkeypatch.setattr("worker.script.bounds.limits.find_hidden", lambda _: set(hidden))
    hidden.add(41)
    assert watch.check(Found()) is None, "it may be about to end"
    hidden.clear()
    assert watch.check(Found()) is None
    hidden.update({42, 43})
    assert watch.check(Found()) is None
    failure = watch.check(Found())
    assert failure.code == "over_limit"
    assert "a process (42)" in failure.message
