import hashlib
import json

import pytest
import structlog

from tests.worker.agent.fake_mlflow import FakeMlflow
from tests.worker.agent.observers.test_tensorboard import scalars, shown
from worker.agent.observers import observers
from worker.agent.observers.previews import PreviewUploader
from worker.agent.observers.tensorboard import TensorBoard
from worker.agent.tracking import follower
from worker.agent.tracking.follower import Follower


@pytest.fixture
def mlflow(fork_mlflow):
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


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"path": "../../worker.key"}, "'../../worker.key'"),
        (None, "artifacts.json"),
    ],
)
def test_a_list_with_files_of_others_fails_the_job_and_reaches_nobody(
    service, start_agent, mlflow, settings, change, problem
):
    item = {"name": "key.md", "kind": "report", "media_type": "text/markdown"}
    listed = "{" if change is None else json.dumps([{**item, **change}])
    attempt_id = service.add_job(steps=2, listed=listed)
    settings.worker_dir.mkdir(exist_ok=True)
    (settings.worker_dir / "worker.key").write_text("secret")
    start_agent(mlflow_tracking_uri=mlflow.url)
    finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure.code) == ("failed", "bad_input")
    assert problem in finish.failure.message
    assert "trainer.log" in {artifact.name for artifact in finish.artifacts}
    assert mlflow.only_run()["status"] == "FAILED"
    assert not mlflow.files


def test_mlflow_shows_a_cancel_that_came_before_the_end(service, start_agent, mlflow):
    service.job_status = "cancelled"
    attempt_id = service.add_job(steps=10, metadata={"owner": "me"})
    start_agent(mlflow_tracking_uri=mlflow.url)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    service.wait_for(lambda: mlflow.only_run()["status"] == "KILLED")
    assert "me" in mlflow.only_run()["tags"].values()
    assert "warning" not in service.kinds(attempt_id)


def test_a_worker_without_mlflows_client_says_how_to_install_it(
    service, start_agent, mlflow, monkeypatch
):
    monkeypatch.setattr(follower, "is_installed", lambda: False)
    attempt_id = service.add_job(steps=10)
    start_agent(mlflow_tracking_uri=mlflow.url)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    (warning,) = [e.data for e in service.events[attempt_id] if e.kind == "warning"]
    assert warning == {"code": "mlflow", "message": follower.MISSING}
    assert "pip install" in follower.MISSING
    assert not mlflow.calls


def fail(*_args, **_options):
    raise ImportError("cannot import name 'x' from 'tensorboard'\n(unknown location)")


def fail_after(function):
    """Let a function do its work first, so that it leaves no file open for other tests."""

    def call(*args, **options):
        function(*args, **options)
        fail()

    return call


@pytest.mark.parametrize(
    ("owner", "method", "part"),
    [
        (observers, "TensorBoard", "TensorBoard"),
        (observers, "Follower", "MLflow"),
        (TensorBoard, "on_event", "TensorBoard"),
        (TensorBoard, "close", "TensorBoard"),
        (Follower, "start", "MLflow"),
        (Follower, "finish", "MLflow"),
        (PreviewUploader, "offer", "the upload of sample predictions"),
        (PreviewUploader, "_send", "the upload of sample predictions"),
    ],
)
def test_an_observer_that_breaks_anywhere_costs_the_job_one_readable_warning(
    service, start_agent, mlflow, monkeypatch, tmp_path, owner, method, part
):
    replaced = fail_after(getattr(owner, method)) if method == "close" else fail
    monkeypatch.setattr(owner, method, replaced)
    attempt_id = service.add_job(steps=10, preview_at=3)
    # Starting MLflow's process costs a second, so only its own cases have one.
    tracking = {"mlflow_tracking_uri": mlflow.url} if part == "MLflow" else {}
    with structlog.testing.capture_logs() as logs:
        start_agent(**tracking)
        finish = service.wait_for_finish(attempt_id)
    assert (finish.outcome, finish.failure) == ("succeeded", None)
    (warning,) = [e.data for e in service.events[attempt_id] if e.kind == "warning"]
    text = "ImportError: cannot import name 'x' from 'tensorboard' (unknown location)"
    assert warning == {
        "code": "observer_failed",
        "message": f"{part} stopped with an error, which did not affect the job: {text}",
    }
    traced = [entry for entry in logs if isinstance(entry.get("exc_info"), ImportError)]
    assert traced
    assert {entry["part"] for entry in traced} == {part}
    faults = json.loads((tmp_path / "worker" / "faults.json").read_text())
    assert faults[part]["text"] == text
    assert faults[part]["attempt_id"] == attempt_id


def test_an_observer_that_cannot_read_a_checkpoint_does_not_fail_a_resumed_job(
    service, start_agent, monkeypatch
):
    monkeypatch.setattr(observers, "load_history", fail)
    content = b"state at step 4"
    facts = {"step": 4, "sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
    service.blobs[facts["sha256"]] = content
    attempt_id = service.add_job(steps=10, checkpoints=[{**facts, "manifest": facts}])
    start_agent()
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"
    (warning,) = [e.data for e in service.events[attempt_id] if e.kind == "warning"]
    assert warning["message"].startswith("TensorBoard stopped with an error")


def test_an_observer_that_works_again_is_no_longer_reported(
    service, start_agent, monkeypatch, tmp_path
):
    faults = tmp_path / "worker" / "faults.json"
    start_agent()
    with monkeypatch.context() as patched:
        patched.setattr(TensorBoard, "on_event", fail)
        service.wait_for_finish(service.add_job(steps=3))
        service.wait_for(lambda: faults.exists() and json.loads(faults.read_text()))
    service.wait_for_finish(service.add_job(steps=3))
    service.wait_for(lambda: json.loads(faults.read_text()) == {})
