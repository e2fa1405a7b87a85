import hashlib

import pytest

from tests.worker.agent.fake_mlflow import FakeMlflow
from tests.worker.agent.observers.test_tensorboard import scalars, shown


@pytest.fixture
def mlflow():
    server = FakeMlflow()
    yield server
    server.close()


def test_a_preview_reaches_the_service_while_the_job_trains(service, start_agent):
    attempt_id = service.add_job(steps=200, step_seconds=0.02, preview_at=3)
    start_agent()
    service.wait_for(lambda: service.previews)
    assert attempt_id not in service.finishes
    assert service.previews == [("step=3&media_type=image%2Fpng", b"a picture")]
    service.cancelled.add(attempt_id)
    assert service.wait_for_finish(attempt_id).outcome == "cancelled"


def test_event_files_of_all_jobs_are_kept_if_a_folder_is_set(service, start_agent, tmp_path):
    folder = tmp_path / "tensorboard"
    attempt_id = service.add_job(steps=10)
    start_agent(tensorboard_dir=folder)
    finish = service.wait_for_finish(attempt_id)
    (path,) = folder.glob("*/*")
    assert path.parent.name == "a-job-1"
    assert [name for name, *_ in scalars(path)] == ["train/loss"] * 10 + ["test/accuracy"]
    (artifact,) = [a for a in finish.artifacts if a.name == "events.out.tfevents"]
    assert service.blobs[artifact.sha256] == path.read_bytes()


def test_the_event_file_of_a_scripts_next_attempt_continues_from_its_checkpoint(
    service, start_agent, tmp_path
):
    folder = tmp_path / "tensorboard"
    start_agent(tensorboard_dir=folder)
    service.wait_for_finish(service.add_job(steps=10))
    content = b"state at step 4"
    facts = {"step": 4, "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
    service.blobs[facts["sha256"]] = content
    ref = {**facts, "manifest": {**facts, "format": "folder"}}
    with service.lock:
        attempt_id = service.add_job(steps=10, checkpoints=[ref])
        service.waiting[-1].update(job_id="job_1", number=2)
    service.wait_for_finish(attempt_id)
    (shared,) = folder.iterdir()
    steps = [step for name, step, _ in shown(shared) if name == "train/loss"]
    assert steps == [*range(1, 11)]


def test_a_job_is_reported_to_mlflow(service, start_agent, mlflow):
    attempt_id = service.add_job(steps=10)
    start_agent(mlflow_tracking_uri=mlflow.url, mlflow_experiment="flowers")
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    run = mlflow.only_run()
    assert run["status"] == "FINISHED"
    assert run["name"] == "a job"
    assert run["tags"]["redkiln.dataset_fingerprint"] == "builtin:digits"
    assert [step for name, step, _ in run["metrics"] if name == "train/loss"] == [*range(1, 11)]
    assert {name.rpartition("/")[2] for name in mlflow.files} == {
        "model.onnx", "report.md", "events.out.tfevents",
    }  # fmt: skip
    assert "warning" not in service.kinds(attempt_id)


def test_mlflow_shows_a_cancel_that_came_before_the_end(service, start_agent, mlflow):
    service.job_status = "cancelled"
    attempt_id = service.add_job(steps=10, metadata={"owner": "me"})
    start_agent(mlflow_tracking_uri=mlflow.url)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    service.wait_for(lambda: mlflow.only_run()["status"] == "KILLED")
    assert "me" in mlflow.only_run()["tags"].values()
    assert "warning" not in service.kinds(attempt_id)


def test_a_refusal_by_mlflow_is_a_warning_on_a_successful_job(service, start_agent, mlflow):
    mlflow.refuse.add("runs/create")
    attempt_id = service.add_job(steps=10)
    start_agent(mlflow_tracking_uri=mlflow.url)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    (warning,) = [e.data for e in service.events[attempt_id] if e.kind == "warning"]
    assert warning["code"] == "mlflow"
    assert "runs/create is not allowed" in warning["message"]
