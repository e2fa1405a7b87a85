"""Whole jobs of real trainers and exports that survive interruptions.

The agent's part of every other fault is proved on fake trainers (test_recovery, test_leases,
test_cancel, test_steering); the trainer's own part in test_trainer_process.
"""

import os
import signal

import pytest

EPOCHS = 12
EPOCHS_TOO_MANY = 200
PATIENCE_SECONDS = 300
"""On a machine that does much else; on an idle one each job takes 15 s."""
pytestmark = [pytest.mark.integration, pytest.mark.timeout(3 * PATIENCE_SECONDS)]


def statuses(job):
    return [str(attempt.status) for attempt in job.attempts]


@pytest.fixture(scope="module")
def undisturbed(shared_real_site):
    """A job that nothing happened to."""
    job_id = shared_real_site.submit(epochs=EPOCHS)
    shared_real_site.wait_for_success(job_id, seconds=PATIENCE_SECONDS)
    return job_id


def assert_is_as_undisturbed(site, job_id, undisturbed):
    assert site.losses(job_id) == site.losses(undisturbed)
    results = [site.events(each, "result")[-1].data for each in (job_id, undisturbed)]
    assert results[0]["verified"]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert site.artifact_names(job_id) == site.artifact_names(undisturbed)
    assert len(site.artifact_names(job_id)) == 14


def test_kill_9_of_the_trainer_and_the_job_goes_on_from_its_checkpoint(real_site, undisturbed):
    site = real_site
    job_id = site.submit(epochs=EPOCHS)
    site.wait_for_training(job_id)
    os.kill(site.trainer_of().pid, signal.SIGKILL)
    job = site.wait_for_end(job_id, seconds=PATIENCE_SECONDS)
    assert (job.status, statuses(job)) == ("succeeded", ["failed", "succeeded"])
    assert job.attempts[0].failure.code == "killed"
    assert job.attempts[1].resumed_from_step in site.committed_steps(job_id)
    assert job.attempts[1].resumed_from_step > 0
    assert_is_as_undisturbed(site, job_id, undisturbed)


def test_a_paused_job_goes_on_exactly(real_site, undisturbed):
    site = real_site
    job_id = site.submit(epochs=EPOCHS)
    site.wait_for_training(job_id)
    site.client.pause(job_id)
    site.wait_for(lambda: site.client.job(job_id).status == "paused")
    paused_at = site.client.checkpoints(job_id)[0].step
    site.client.resume(job_id)
    job = site.wait_for_end(job_id, seconds=PATIENCE_SECONDS)
    assert (job.status, statuses(job)) == ("succeeded", ["paused", "succeeded"])
    assert job.attempts[1].resumed_from_step == paused_at
    assert_is_as_undisturbed(site, job_id, undisturbed)


def test_a_job_that_is_finished_early_leaves_a_verified_model(real_site):
    site = real_site
    job_id = site.submit(epochs=EPOCHS_TOO_MANY)
    site.wait_for_training(job_id)
    site.client.finish(job_id)
    job = site.wait_for_end(job_id, seconds=PATIENCE_SECONDS)
    assert (job.status, statuses(job)) == ("succeeded", ["paused", "succeeded"])
    assert 0 < job.progress.epoch < EPOCHS_TOO_MANY
    (model,) = [item for item in site.client.artifacts(job_id) if item.name == "model.onnx"]
    assert model.verified


def test_a_finished_job_is_exported_again_in_another_variant_without_training(
    real_site, undisturbed
):
    site = real_site
    job_id = site.client.export(undisturbed, variants=["int8-dynamic"]).id
    job = site.wait_for_success(job_id, seconds=PATIENCE_SECONDS)
    assert "training" not in job.result.phase_seconds
    result, before = (site.events(each, "result")[-1].data for each in (job_id, undisturbed))
    assert result["metrics"] == before["metrics"]
    models = {item.name for item in site.client.artifacts(job_id) if item.kind == "model"}
    assert models == {"model.onnx", "model-int8-dynamic.onnx"}


def test_a_cancelled_job_ends_its_export_at_once(real_site):
    site = real_site
    job_id = site.submit(epochs=1)
    site.wait_for(lambda: site.client.job(job_id).phase in ("exporting", "verifying"))
    site.client.cancel(job_id)
    assert site.wait_for_end(job_id, seconds=20).status == "cancelled"
    site.wait_for(lambda: site.trainer_of() is None, seconds=10)
    assert site.client.artifacts(job_id) == []
