"""Pause, resume and retry of a job on fake trainers; test_end_to_end has a real one."""

import pytest

pytestmark = pytest.mark.integration

LONG = 400
EPOCHS = 12


def wait_for_status(site, job_id, status):
    site.wait_for(lambda: site.client.job(job_id).status == status)
    return site.client.job(job_id)


def test_a_paused_job_frees_its_slot_and_resumes_exactly(site):
    undisturbed = site.submit(epochs=EPOCHS)
    site.wait_for_end(undisturbed)

    job_id = site.submit(epochs=EPOCHS)
    site.wait_for_training(job_id)
    assert site.client.pause(job_id).status in ("pausing", "paused")
    job = wait_for_status(site, job_id, "paused")
    site.wait_for(lambda: site.trainer_of() is None)
    paused_at = site.client.checkpoints(job_id)[0].step
    assert paused_at >= job.progress.step

    other = site.submit(epochs=1)
    site.wait_for_success(other)
    assert site.client.job(job_id).status == "paused"

    site.client.resume(job_id)
    job = site.wait_for_end(job_id)
    assert job.status == "succeeded"
    assert [str(attempt.status) for attempt in job.attempts] == ["paused", "succeeded"]
    assert job.attempts[1].resumed_from_step == paused_at
    assert site.losses(job_id) == site.losses(undisturbed)


def test_a_cancelled_job_is_retried_from_the_chosen_checkpoint(site):
    job_id = site.submit(epochs=LONG)
    site.wait_for_training(job_id, checkpoints=3)
    site.client.cancel(job_id)
    site.wait_for_end(job_id)
    steps = [item.step for item in site.client.checkpoints(job_id)]
    assert len(steps) >= 2
    site.client.retry(job_id, start=steps[-1])
    job = wait_for_status(site, job_id, "running")
    assert job.attempts[-1].resumed_from_step == steps[-1]
    site.wait_for(lambda: len(site.client.checkpoints(job_id)) > 1)
    site.client.cancel(job_id)
    assert site.wait_for_end(job_id).status == "cancelled"


def test_a_finished_job_ends_with_the_files_of_what_it_had_learnt(site):
    job_id = site.submit(epochs=LONG)
    site.wait_for_training(job_id, checkpoints=2)
    assert site.client.finish(job_id).status == "pausing"
    job = site.wait_for_end(job_id)
    assert job.status == "succeeded"
    assert [str(attempt.status) for attempt in job.attempts] == ["paused", "succeeded"]
    assert job.progress.step < job.progress.steps
    assert "model.onnx" in [item.name for item in site.client.artifacts(job_id)]


def test_a_cancelled_job_can_still_be_exported(site):
    job_id = site.submit(epochs=LONG)
    site.wait_for_training(job_id, checkpoints=2)
    site.client.cancel(job_id)
    site.wait_for_end(job_id)
    site.client.finish(job_id)
    assert site.wait_for_end(job_id).status == "succeeded"
