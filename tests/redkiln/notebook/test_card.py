from datetime import UTC, datetime

from redkiln.notebook.card import render_card
from redkiln.views.job import JobView
from redkiln.views.metrics import Series


def job(**facts):
    common = {"id": "job_1", "name": "flowers", "task": "t", "status": "running", "spec": {}}
    return JobView(
        is_terminal=False, created_at=datetime(2026, 11, 27, tzinfo=UTC), **{**common, **facts}
    )


def series(values, name="val/loss"):
    steps = list(range(len(values)))
    return Series(name=name, steps=steps, values=values, num_points=len(values), downsampled=False)


def test_a_running_job_shows_its_phase_its_progress_and_its_newest_metrics():
    progress = {"fraction": 0.25, "eta_seconds": 90.0, "metrics": {"train/loss": 0.5}}
    card = render_card(job(phase="training", progress=progress), [])
    assert "running, training" in card
    assert 'value="0.2500"></progress> 25%, about 90 s left' in card
    assert "<td>train/loss</td><td>0.5</td>" in card


def test_a_curve_has_its_least_value_below_and_leaves_out_what_is_not_finite():
    card = render_card(job(), [series([2.0, None, float("nan"), 1.0])])
    assert 'points="0.0,0.0 220.0,60.0"' in card
    assert "val/loss: 1<" in card


def test_a_single_point_and_a_level_curve_are_no_errors():
    card = render_card(job(), [series([1.0]), series([3.0, 3.0], "level")])
    assert card.count("<svg") == 1
    assert 'points="0.0,30.0 220.0,30.0"' in card


def test_texts_of_users_are_escaped():
    facts = {"name": "<script>", "reason": {"code": "x", "message": "<b>&"}}
    card = render_card(job(**facts), [series([0, 1], '"><img>')])
    assert "<script>" not in card
    assert "<img>" not in card
    assert "&lt;b&gt;&amp;" in card
