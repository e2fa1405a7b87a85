"""Training that diverges and goes back."""

from dataclasses import replace

import pytest
import torch

from redkiln.failure import FailureCode, JobFailure
from redkiln.spec.job_spec import Training
from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped
from worker.trainer.optim.rollback import MAX_ROLLBACKS, may_roll_back

ROLLBACK = {"on_divergence": "rollback", "epochs": 3, "ema": 0.9}


def spoil(loop, *, at, times=1):
    """Makes the loss of these steps, counted from 1, not finite, each a number of times."""
    left = dict.fromkeys(at, times)

    def loss(outputs, targets, *, own=loop._setup.loss):
        value = own(outputs, targets)
        if left.get(loop.step + 1, 0):
            left[loop.step + 1] -= 1
            value = value * float("nan")
        return value

    loop._stepper.gradients._setup = replace(loop._setup, loss=loss)


@pytest.mark.parametrize(
    ("code", "on_divergence", "num_rollbacks", "may"),
    [
        (FailureCode.DIVERGED, "rollback", 0, True),
        (FailureCode.DIVERGED, "rollback", MAX_ROLLBACKS - 1, True),
        (FailureCode.DIVERGED, "rollback", MAX_ROLLBACKS, False),
        (FailureCode.DIVERGED, "stop", 0, False),
        (FailureCode.BAD_INPUT, "rollback", 0, False),
    ],
)
def test_only_divergence_causes_rollbacks_and_only_a_few(code, on_divergence, num_rollbacks, may):
    training = Training(on_divergence=on_divergence)
    failure = JobFailure.of(code, "why")
    assert may_roll_back(failure, training, num_rollbacks=num_rollbacks) is may


@pytest.mark.parametrize("at", [1, 3, 6, 8])
def test_a_rolled_back_run_equals_a_run_with_the_lower_rate_from_there(
    make_job, start, losses, events, at
):
    job_dir = make_job("job", training=ROLLBACK)
    loop, setup = start(job_dir)
    lr = setup.spec.training.optimizer.lr
    spoil(loop, at=[at])
    loop.run()
    back_to = (at - 1) // 6 * 6
    (warning,) = [e["data"] for e in events(job_dir, "warning")]
    assert warning["code"] == "rolled_back"
    assert f"went back to step {back_to} " in warning["message"]
    resolved = events(job_dir, "resolved")[-1]["data"]["spec"]["training"]
    assert resolved["optimizer"]["lr"] == lr / 2

    undisturbed = make_job("undisturbed", training=ROLLBACK)
    other, other_work = start(undisturbed)
    other.advance(back_to)
    other_work.spec.training.optimizer.lr = lr / 2
    other.run()
    assert losses(job_dir) == losses(undisturbed)
    assert loop.history.series == other.history.series
    for name, tensor in setup.model.state_dict().items():
        assert torch.equal(tensor, other_work.model.state_dict()[name]), name


def read_chart(events):
    """Series by name, as a reader of the metrics events builds them."""
    chart = {}
    for event in events:
        undone_after = event["data"].get("undone_after")
        for points in chart.values():
            points[:] = [p for p in points if undone_after is None or p[0] <= undone_after]
        for name, points in event["data"]["points"].items():
            chart.setdefault(name, []).extend((step, value) for step, value in points)
    return chart


@pytest.mark.parametrize("progress_seconds", [0.0, 1000.0])
@pytest.mark.parametrize("at", [3, 9])
def test_undone_steps_have_no_points_in_the_chart(make_job, start, events, at, progress_seconds):
    job_dir = make_job("job", training=ROLLBACK)
    loop, _ = start(job_dir, progress_seconds=progress_seconds)
    spoil(loop, at=[at])
    loop.run()
    chart = read_chart(events(job_dir, "metrics"))
    for name, points in loop.history.series.items():
        assert chart[name] == points, name
    for points in chart.values():
        steps = [step for step, _ in points]
        assert steps == sorted(steps)


@pytest.mark.parametrize("stop_after", [6, 7, 11])
def test_an_interrupted_run_resumes_with_the_lowered_rate(make_job, start, losses, stop_after):
    straight = make_job("straight", training=ROLLBACK)
    loop, _ = start(straight)
    spoil(loop, at=[9])
    loop.run()

    first = make_job("first", training=ROLLBACK)
    done = []
    interrupted, _ = start(first)
    spoil(interrupted, at=[9])
    interrupted._should_stop = lambda: (
        interrupted._state.num_rollbacks == 1 and interrupted.step >= stop_after
    )
    with pytest.raises(Stopped):
        interrupted.run()
    newest = CheckpointStore(first.checkpoints_dir).manifests()[-1]
    assert newest.step == stop_after
    second = make_job("first", training=ROLLBACK, order={"resume": newest.name})
    resumed, setup = start(second)
    resumed.run()
    assert not done
    assert setup.spec.training.optimizer.lr == 1e-3
    assert losses(second) == losses(straight)
    assert resumed._state.num_rollbacks == 1


def test_repeated_divergence_fails_in_the_end(make_job, start, events):
    job_dir = make_job(training=ROLLBACK)
    loop, setup = start(job_dir)
    spoil(loop, at=[8], times=10)
    with pytest.raises(TrainingFailed, match="step-000000000006") as caught:
        loop.run()
    assert caught.value.failure.code is FailureCode.DIVERGED
    assert len(events(job_dir, "warning")) == MAX_ROLLBACKS
    assert setup.spec.training.optimizer.lr == 2e-3 / 2**MAX_ROLLBACKS


def test_rolling_back_to_the_best_checkpoint_keeps_it_the_best(make_job, start):
    job_dir = make_job(training=ROLLBACK)
    loop, _ = start(job_dir)
    loop.advance(7)
    spoil(loop, at=[8])
    loop.advance(1)
    loop.advance(1)
    store = CheckpointStore(job_dir.checkpoints_dir)
    (best,) = [m for m in store.manifests() if m.is_best]
    assert best.step == 6
    assert best.metrics == loop.best_metrics
