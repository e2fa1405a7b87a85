import pytest

from worker.trainer.images.decode.room import (
    DISK_RESERVE_BYTES,
    choose_depth,
    choose_home,
    detect_memory_budget,
    may_be_stored,
    read_available_bytes,
    read_group_free_bytes,
)

GIB = 2**30


@pytest.mark.parametrize(
    ("size", "kind", "free", "budget", "expected"),
    [
        (10, "cpu", 0, 10, "device"),
        (11, "cpu", 0, 10, "disk"),
        (6, "cuda", 10, 0, "device"),
        (7, "cuda", 10, 100, "disk"),
    ],
)
def test_sets_that_fit_are_resident_and_others_are_read_from_disk(
    size, kind, free, budget, expected
):
    home = choose_home(size, kind=kind, free_bytes=free, budget_bytes=budget)
    assert home == expected


@pytest.mark.parametrize(
    ("batch", "budget", "expected"), [(10, 100, 2), (10, 30, 2), (10, 20, 1), (10, 0, 1)]
)
def test_buffers_stay_within_the_budget_with_at_least_one_batch_ahead(batch, budget, expected):
    assert choose_depth(batch_bytes=batch, budget_bytes=budget, wanted=2) == expected


@pytest.mark.parametrize(
    ("size", "budget", "free", "others", "expected"),
    [
        (GIB, 20 * GIB, 3 * GIB, 0, True),
        (21 * GIB, 20 * GIB, 100 * GIB, 0, False),
        (3 * GIB, 20 * GIB, 3 * GIB, 0, False),
        (3 * GIB, 20 * GIB, 3 * GIB, DISK_RESERVE_BYTES, True),
    ],
)
def test_a_set_is_stored_if_budget_and_disk_have_room(size, budget, free, others, expected):
    found = may_be_stored(size, budget_bytes=budget, free_bytes=free, others_bytes=others)
    assert found is expected


def test_free_memory_is_what_the_kernel_reports_as_available():
    text = "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable:   40 kB\n"
    assert read_available_bytes(text) == 40 * 1024
    assert read_available_bytes("MemTotal: 100 kB\n") == 0


def test_a_control_group_counts_cached_files_as_free():
    stat = "anon 5\ninactive_file 30\nactive_file 20\n"
    assert read_group_free_bytes("1000", "600", stat) == 450
    assert read_group_free_bytes("max\n", "600", stat) == float("inf")
    assert read_group_free_bytes(None, None, None) == float("inf")


def test_the_budget_is_half_of_the_free_memory_of_host_or_group(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemAvailable: 1000 kB\n")
    assert detect_memory_budget(tmp_path) == 512_000
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("500000\n")
    (group / "memory.current").write_text("100000\n")
    (group / "memory.stat").write_text("inactive_file 0\n")
    assert detect_memory_budget(tmp_path) == 200_000
