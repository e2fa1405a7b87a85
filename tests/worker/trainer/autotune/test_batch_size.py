import pytest

from worker.trainer.autotune.batch_size import (
    Speeds,
    choose_batch_size,
    compare_turns,
    is_flat,
    list_candidates,
    reference_batch_size,
    scale_rate,
    spread_over_ranks,
)


@pytest.mark.parametrize(
    ("num_ranks", "num_train", "batch_size"),
    [(2, 50_000, 256), (4, 50_000, 512), (16, 50_000, 512), (4, 300, 8), (9, 300, 9)],
)
def test_each_device_gets_its_fast_batch_size_if_data_allow(num_ranks, num_train, batch_size):
    found = spread_over_ranks(128, num_ranks=num_ranks, num_train=num_train)
    assert found == batch_size


@pytest.mark.parametrize(
    ("num_train", "memory", "sizes"),
    [
        (5, {}, [8]),
        (799, {}, [8]),
        (800, {}, [8, 16]),
        (9_000, {}, [8, 16, 32, 64, 128]),
        (10**7, {}, [8, 16, 32, 64, 128, 256, 512, 1024]),
        (10**7, {"bytes_a_sample": 2**20, "free_bytes": 100 * 2**20}, [8, 16, 32, 64]),
        (10**7, {"bytes_a_sample": 2**30, "free_bytes": 2**30}, [8]),
        (10**7, {"bytes_a_sample": 2**10, "free_bytes": 2**40}, [8 * 2**n for n in range(8)]),
    ],
)
def test_sizes_are_capped_by_data_memory_and_1024(num_train, memory, sizes):
    assert list_candidates(num_train, **memory) == sizes


@pytest.mark.parametrize(
    ("rates", "chosen"),
    [
        ({8: 100.0}, 8),
        ({8: 100.0, 16: 200.0, 32: 400.0}, 32),
        ({8: 100.0, 16: 380.0, 32: 400.0}, 16),
        ({8: 100.0, 16: 379.0, 32: 400.0}, 32),
        ({8: 400.0, 16: 390.0, 32: 200.0}, 8),
        ({8: 300.0, 16: 400.0, 32: 395.0, 64: 410.0}, 16),
    ],
)
def test_the_smallest_batch_within_5_percent_of_the_fastest_is_chosen(rates, chosen):
    assert choose_batch_size(Speeds(rates)) == chosen


@pytest.mark.parametrize(("doubt", "chosen"), [(0.0, 32), (0.01, 32), (0.02, 16), (0.05, 16)])
def test_timing_uncertainty_favours_the_smaller_batch(doubt, chosen):
    assert choose_batch_size(Speeds({8: 100.0, 16: 375.0, 32: 400.0}, doubt)) == chosen


def test_sizes_are_compared_within_a_turn_however_the_machine_slows_down():
    turns = [{16: 360.0 * speed, 32: 400.0 * speed} for speed in (1.0, 0.5, 0.9, 0.2)]
    compared = compare_turns(turns)
    assert compared.rates[16] / compared.rates[32] == pytest.approx(0.9)
    assert compared.doubt == pytest.approx(0.0, abs=1e-9)


def test_one_odd_turn_changes_only_the_uncertainty():
    steady = [{16: 360.0, 32: 400.0}] * 6
    odd = compare_turns([*steady, {16: 360.0, 32: 320.0}])
    assert odd.rates == pytest.approx(compare_turns(steady).rates)
    assert compare_turns(steady).doubt == 0
    assert 0 < odd.doubt <= 0.02


def test_more_turns_reduce_the_uncertainty():
    turns = [{16: 372.0, 32: 400.0}, {16: 384.0, 32: 400.0}, {16: 376.0, 32: 400.0}]
    assert 0.0 < compare_turns(5 * turns).doubt < 0.6 * compare_turns(turns).doubt
    assert compare_turns(turns[:1]) == Speeds(pytest.approx(turns[0]), 0.0)


@pytest.mark.parametrize(
    ("rates", "flat"),
    [
        ({8: 100.0, 16: 90.0}, False),
        ({8: 100.0, 16: 102.0, 32: 104.0}, True),
        ({8: 100.0, 16: 102.0, 32: 120.0}, False),
        ({8: 50.0, 16: 100.0, 32: 99.0, 64: 98.0}, True),
        ({8: 50.0, 16: 100.0, 32: 99.0, 64: 110.0}, False),
    ],
)
def test_measuring_stops_after_two_doublings_without_a_gain(rates, flat):
    assert is_flat(rates) is flat


@pytest.mark.parametrize(
    ("num_train", "batch_size"),
    [(1, 8), (1599, 8), (1600, 16), (6399, 32), (9000, 64), (12_800, 128), (10**6, 128)],
)
def test_default_rates_are_meant_for_about_a_hundred_batches_an_epoch(num_train, batch_size):
    assert reference_batch_size(num_train) == batch_size


@pytest.mark.parametrize(
    ("batch_size", "lr"), [(64, 2e-3), (256, 4e-3), (16, 1e-3), (128, 2.83e-3)]
)
def test_the_learning_rate_grows_with_the_square_root_of_the_batch(batch_size, lr):
    assert scale_rate(2e-3, batch_size=batch_size, reference=64) == lr
