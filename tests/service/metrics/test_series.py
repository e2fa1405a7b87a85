import json
import time

import numpy as np

from service.metrics.series import join_attempts, render_series, thin


def line(start, stop, value=0.0):
    return np.array([[step, value] for step in range(start, stop)], dtype=float)


def test_points_of_an_earlier_attempt_after_the_resumed_step_are_replaced():
    curve = join_attempts([(line(0, 10, 1.0), None), (line(6, 12, 2.0), 5)])
    assert curve[:, 0].tolist() == list(range(12))
    assert curve[:, 1].tolist() == [1.0] * 6 + [2.0] * 6


def test_a_curve_never_runs_backwards_if_an_attempt_went_back_further():
    curve = join_attempts([(line(1, 10, 1.0), None), (line(4, 12, 2.0), 9)])
    assert curve[:, 0].tolist() == list(range(1, 12))
    assert curve[:, 1].tolist() == [1.0] * 3 + [2.0] * 8


def test_an_attempt_without_points_leaves_the_curve_up_to_its_resumed_step():
    curve = join_attempts([(line(0, 10), None), (np.empty((0, 2)), 5)])
    assert curve[:, 0].tolist() == list(range(6))


def test_an_attempt_that_started_from_scratch_replaces_everything():
    curve = join_attempts([(line(0, 10, 1.0), None), (line(0, 3, 2.0), None)])
    assert curve.tolist() == line(0, 3, 2.0).tolist()


def test_a_short_series_is_shown_whole():
    assert len(thin(line(0, 50), max_points=50)) == 50


def test_a_thinned_series_keeps_its_ends_and_its_extremes():
    points = line(0, 100_000)
    points[77_777, 1] = 9.0
    points[12_345, 1] = -9.0
    shown = thin(points, max_points=200)
    assert len(shown) <= 200
    assert shown[0, 0] == 0
    assert shown[-1, 0] == 99_999
    assert {9.0, -9.0} <= set(shown[:, 1].tolist())


def test_values_that_are_not_finite_are_null_and_do_not_prevent_thinning():
    points = line(0, 1000, 1.0)
    points[10, 1] = np.nan
    points[20, 1] = np.inf
    series = json.loads(render_series("loss", points, max_points=100))
    assert len(series["steps"]) == len(series["values"]) <= 100
    assert None in series["values"]
    assert series["num_points"] == 1000
    assert series["downsampled"] is True


def test_thinning_a_million_points_is_fast():
    points = np.column_stack([np.arange(1e6), np.random.default_rng(0).normal(size=10**6)])
    start = time.thread_time()
    render_series("loss", points, max_points=500)
    assert time.thread_time() - start < 0.15
