from worker.checkpoints.history import MAX_LOSS_POINTS, History, LossCurve


def test_a_history_survives_as_tensors_exactly():
    history = History()
    history.add("train/loss", 1, 0.1)
    history.add("train/loss", 2**40 + 1, 1 / 3)
    history.add("val/accuracy", 7, 0.5)
    assert History.from_tensors(history.to_tensors()).series == history.series
    assert history.newest() == {"train/loss": 1 / 3, "val/accuracy": 0.5}


def test_short_runs_keep_every_loss():
    curve = LossCurve(steps=MAX_LOSS_POINTS)
    assert [curve.add(float(s), step=s) for s in (1, 2, 3)] == [1.0, 2.0, 3.0]


def test_long_runs_average_over_windows_that_an_interruption_does_not_move():
    steps = 3 * MAX_LOSS_POINTS
    whole = LossCurve(steps=steps)
    expected = [whole.add(float(s * s), step=s) for s in range(1, 10)]
    assert expected == [None, None, 14 / 3, None, None, 77 / 3, None, None, 194 / 3]

    before = LossCurve(steps=steps)
    found = [before.add(float(s * s), step=s) for s in range(1, 6)]
    after = LossCurve(steps=steps, window_sum=before.window_sum, window_count=before.window_count)
    found += [after.add(float(s * s), step=s) for s in range(6, 10)]
    assert found == expected
