from dataclasses import replace

import pytest
import torch

from redkiln.failure import FailureCode
from worker.jobdir import EXIT_FAILED
from worker.process.failed import TrainingFailed
from worker.process.lifetime import StopSignal
from worker.tasks.train import run_job


def test_a_loss_that_is_not_finite_fails_and_names_the_last_good_checkpoint(
    make_job, start, events
):
    job_dir = make_job()
    loop, setup = start(job_dir)
    loop.advance(6)
    loop.advance(1)
    with torch.no_grad():
        next(setup.model.parameters()).fill_(float("nan"))
    with pytest.raises(TrainingFailed, match="step-000000000006") as caught:
        loop.run()
    failure = caught.value.failure
    assert failure.code is FailureCode.DIVERGED
    assert failure.details["step"] == 8
    assert [e["data"]["step"] for e in events(job_dir, "checkpoint")] == [6]


def test_a_learning_rate_far_too_high_fails_as_diverged(make_job, events):
    optimizer = {"name": "sgd", "lr": 100.0}
    job_dir = make_job(model={"name": "amdnet"}, training={"optimizer": optimizer, "epochs": 40})
    assert run_job(job_dir, StopSignal()) == EXIT_FAILED
    failure = events(job_dir)[-1]
    assert (failure["kind"], failure["data"]["code"]) == ("failure", "diverged")
    assert failure["data"]["retryable"] is False


def spoil(setup, *, steps):
    """The loss overflows at these steps, counted from 0."""
    made = []

    def loss(outputs, targets, *, own=setup.loss):
        made.append(1)
        return own(outputs, targets) * (float("inf") if len(made) - 1 in steps else 1.0)

    return replace(setup, loss=loss)


def test_a_step_that_overflows_in_fp16_is_skipped_and_counted(make_job, start, losses):
    job_dir = make_job(training={"precision": "fp16"})
    loop, setup = start(job_dir)
    loop._stepper.gradients._setup = spoil(setup, steps={2, 5})
    loop.run()
    assert set(losses(job_dir)) == set(range(1, 13)) - {3, 6}
    assert loop.history.series["skipped_steps"] == [(6, 2), (12, 2)]


def test_many_overflows_in_a_row_fail_as_diverged_at_that_step(make_job, start):
    job_dir = make_job(training={"precision": "fp16", "epochs": 5})
    loop, setup = start(job_dir)
    loop._stepper.gradients._setup = spoil(setup, steps=set(range(4, 40)))
    with pytest.raises(TrainingFailed, match="20 steps in a row") as caught:
        loop.run()
    assert caught.value.failure.code is FailureCode.DIVERGED
    assert caught.value.failure.details["step"] == 24
