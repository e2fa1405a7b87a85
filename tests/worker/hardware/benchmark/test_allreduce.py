import os

import pytest

from worker.hardware.benchmark.allreduce import bus_bytes, measure_allreduce, skip_allreduce

pytestmark = pytest.mark.usefixtures("fork_ranks")
SIZES = {"a little": 4096, "more": 65536}


def measure(num_ranks=2, **options):
    options = {"device_type": "cpu", "rounds": 3, "sizes": SIZES, **options}
    return measure_allreduce(num_ranks, environ=dict(os.environ), **options)


def test_two_ranks_sum_in_separate_processes():
    found = measure()
    assert [m.id for m in found] == ["allreduce/4096", "allreduce/65536"]
    for measured in found:
        assert measured.skipped is None
        assert measured.rate.num_samples == 3
        assert measured.rate.value == pytest.approx(
            bus_bytes(measured.size, num_ranks=2) / 1e9 / measured.seconds
        )


def test_failing_ranks_report_the_reason():
    (found,) = measure(sizes={"less than nothing": -4})
    assert found.rate is None
    assert "rank 0 exited with status 1: [rank0]: RuntimeError" in found.skipped


def test_hanging_ranks_are_killed():
    found = measure(timeout_seconds=0.05)
    assert all("did not finish within 0 s" in m.skipped for m in found)


def test_a_skipped_allreduce_is_listed():
    (first, _) = skip_allreduce("there is one GPU", SIZES)
    assert (first.id, first.skipped) == ("allreduce/4096", "there is one GPU")


@pytest.mark.parametrize(("num_ranks", "share"), [(2, 1.0), (4, 1.5), (8, 1.75)])
def test_a_link_carries_its_share_of_the_buffer(num_ranks, share):
    assert bus_bytes(1000, num_ranks=num_ranks) == 1000 * share
