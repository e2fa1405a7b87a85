from worker.trainer import spare


def test_no_more_steps_are_made_once_a_job_is_waiting(monkeypatch):
    made, answers = [], iter([False, True])
    monkeypatch.setattr(spare, "_warm_up", lambda name, *_shape: made.append(name))
    spare.warm_up(is_job_waiting=lambda: next(answers))
    assert made == [spare.WARM_SHAPES[0][0]]
