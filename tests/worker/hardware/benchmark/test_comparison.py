import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from worker.hardware.benchmark import comparison
from worker.hardware.benchmark.comparison import (
    INFINITE,
    Contest,
    find_differences,
    pair_up,
    run_contest,
)
from worker.hardware.benchmark.plan import Case

FAKE = str(Path(__file__).with_name("fake_side.py"))
PRODUCT = Case("matmul/64/fp32", "matmul", "a product", "TFLOP/s", 2e12, 1, precision="fp32")


@pytest.fixture
def fake_side(monkeypatch):
    """Runs the fake in place of a module of the package."""

    @contextmanager
    def start(_module, arguments, *, environ):
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, FAKE, *arguments], env=environ, stdin=pipe, stdout=pipe, stderr=pipe,
            text=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    monkeypatch.setattr(comparison, "start_child", start)


def contest(*arguments, **fields):
    environ = dict(os.environ)
    return Contest(
        name="patches",
        title="The patches",
        module="",
        without=environ,
        with_={**environ, "FASTER": "1"},
        arguments=arguments,
        **fields,
    )


def test_both_sides_are_measured_alternately_in_their_own_environment(fake_side):
    made = run_contest(contest("1.0", "2.0"), [PRODUCT], rounds=5, seconds=60)
    (pair,) = made.pairs
    assert (pair.without, pair.with_, pair.ratio, pair.num_samples) == (2.0, 4.0, 2.0, 5)
    assert (made.largest_difference, made.agrees, made.skipped) == (0.0, True, None)


def test_a_side_that_crashes_leaves_its_error_and_no_numbers(fake_side):
    made = run_contest(contest("1.0", "2.0", "die"), [PRODUCT], rounds=5, seconds=60)
    assert made.pairs == []
    assert "exited with status 1: the GPU is gone" in made.skipped


def test_at_least_three_rounds_run_and_none_begins_after_the_time(fake_side):
    made = run_contest(contest("1.0", "2.0"), [PRODUCT], rounds=50, seconds=0)
    assert made.pairs[0].num_samples == 3


def test_a_cancel_during_a_wait_leaves_no_process_behind(fake_side):
    rounds = iter(range(4))

    def cancel_later():
        if next(rounds) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_contest(contest("1.0", "2.0"), [PRODUCT], rounds=5, seconds=60, on_round=cancel_later)
    assert not [c for c in psutil.Process().children() if FAKE in c.cmdline()]


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.0], [1.0, 1.0], 0.5),
        ([0.0, 0.0], [0.0, 0.0], 0.0),
        ([1.0], [1.0, 2.0], INFINITE),
        ([1.0], [float("nan")], INFINITE),
        ([float("inf")], [float("inf")], INFINITE),
        ([], [], INFINITE),
    ],
)
def test_results_are_compared_relative_to_the_largest(one, other, difference):
    assert find_differences({"a": one}, {"a": other}) == {"a": difference}


def test_a_test_that_only_one_side_has_differs():
    assert find_differences({"a": [1.0]}, {}) == {"a": INFINITE}
    assert find_differences({}, {"a": [1.0]}) == {"a": INFINITE}


def test_the_spread_of_a_pair_is_the_larger_one():
    steady, restless = [{PRODUCT.id: 1.0}] * 4, [{PRODUCT.id: s} for s in (1.0, 1.0, 2.0, 2.0)]
    assert pair_up([PRODUCT], steady, restless)[0].spread > 0.3
    assert pair_up([PRODUCT], steady, steady)[0].spread == 0.0
