"""Whole jobs of real trainers and exports that survive interruptions.

The agent's part of every other fault is proved on fake trainers (test_recovery, test_leases,
test_cancel, test_steering); the trainer's own part in test_trainer_process.
"""

import io
import os
import signal

import pytest

from redkiln.predict.labelled.builtins import write_test_split
from redkiln.predict.labelled.score import score_data
from redkiln.predict.model import Model

EPOCHS = 24
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


def test_a_job_that_is_killed_and_paused_resumes_exactly(real_site, undisturbed):
    site = real_site
    job_id = site.submit(epochs=EPOCHS)
    site.wait_for_training(job_id)
    os.kill(site.trainer_of().pid, signal.SIGKILL)
    site.wait_for(lambda: len(site.client.job(job_id).attempts) == 2)
    resumed_from = site.client.job(job_id).attempts[1].resumed_from_step
    assert resumed_from > 0
    assert resumed_from in site.committed_steps(job_id)

    site.wait_for(lambda: site.committed_steps(job_id)[-1] > resumed_from)
    site.client.pause(job_id)
    site.wait_for(lambda: site.client.job(job_id).status == "paused")
    paused_at = site.client.checkpoints(job_id)[0].step
    site.client.resume(job_id)
    job = site.wait_for_end(job_id, seconds=PATIENCE_SECONDS)
    assert (job.status, statuses(job)) == ("succeeded", ["failed", "paused", "succeeded"])
    assert job.attempts[0].failure.code == "killed"
    assert job.attempts[2].resumed_from_step == paused_at

    assert site.losses(job_id) == site.losses(undisturbed)
    results = [site.events(each, "result")[-1].data for each in (job_id, undisturbed)]
    assert results[0]["verified"]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert site.artifact_names(job_id) == site.artifact_names(undisturbed)
    assert {"model.onnx", "checkpoint.safetensors", "report.md"} <= site.artifact_names(job_id)


def test_the_test_split_of_a_built_in_set_gives_the_recorded_accuracy(
    real_site, undisturbed, tmp_path
):
    results, samples = tmp_path / "results", tmp_path / "samples"
    real_site.client.download_all(undisturbed, results)
    samples.mkdir()
    path = write_test_split("builtin:digits", samples)
    model = Model(results / "model.onnx", threads=1)
    found = score_data(model, str(path), stdin=io.BytesIO(), max_drop=0.005)
    assert (found.num_samples, found.skipped) == (179, [])
    assert found.metric == pytest.approx(found.recorded, abs=0.002)


def test_an_export_of_a_finished_job_is_cancelled_at_once_and_retried_without_training(
    real_site, undisturbed
):
    site = real_site
    job_id = site.client.export(undisturbed, variants=["int8-dynamic"]).id
    site.wait_for(lambda: site.client.job(job_id).phase in ("exporting", "verifying"))
    site.client.cancel(job_id)
    assert site.wait_for_end(job_id, seconds=20).status == "cancelled"
    site.wait_for(lambda: site.trainer_of() is None, seconds=10)
    assert site.client.artifacts(job_id) == []

    site.client.retry(job_id)
    job = site.wait_for_success(job_id, seconds=PATIENCE_SECONDS)
    assert "training" not in job.result.phase_seconds
    result, before = (site.events(each, "result")[-1].data for each in (job_id, undisturbed))
    assert result["metrics"] == before["metrics"]
    models = {item.name for item in site.client.artifacts(job_id) if item.kind == "model"}
    assert models == {"model.onnx", "model-int8-dynamic.onnx"}
