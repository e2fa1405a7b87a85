from datetime import UTC, datetime

import pytest
from mlflow.tracking import MlflowClient

from redkiln.events import Event, EventKind
from tests.worker.agent.fake_mlflow import FakeMlflow
from worker.agent.tracking import __main__ as process
from worker.agent.tracking.messages import Ending, RunFacts
from worker.agent.tracking.names import flatten
from worker.agent.tracking.run import TrackedRun

REFUSED = "MLflow refused some of the run's data: INVALID_PARAMETER_VALUE: "
AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
SPEC = {
    "model": {"name": "amdnet", "options": {"image_size": 32}},
    "training": {"batch_size": 64, "optimizer": {"lr": 0.002, "betas": [0.9, 0.999]}, "ema": None},
}


def event(kind, **data):
    return Event(at=AT, kind=kind, data=data)


def resolved(spec=SPEC):
    return event(EventKind.RESOLVED, spec=spec, environment={"device": "cpu", "torch": "2.13"})


def metrics(points):
    return event(EventKind.METRICS, points=points)


@pytest.fixture
def mlflow():
    servers = []

    def serve(**settings):
        servers.append(FakeMlflow(**settings))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


@pytest.fixture(autouse=True)
def _no_retries(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setattr(process, "RETRY_SECONDS", 0.0)


class Tracked:
    """A run that is written in this process, as the follower does it."""

    def __init__(self, folder, url, job_id):
        self.path = folder / f"{len(list(folder.iterdir()))}.jsonl"
        facts = RunFacts(
            events_path=self.path,
            experiment="redkiln",
            job_id=job_id,
            job_name="flowers",
            tags={"redkiln.dataset_fingerprint": "f00d"},
        )
        self.run = TrackedRun(MlflowClient(url), facts)

    def on_event(self, event):
        with self.path.open("a") as file:
            file.write(event.model_dump_json() + "\n")

    def finish(self, status, files=(), *, timeout_seconds=60.0):
        ending = Ending(status=status, files=files, timeout_seconds=timeout_seconds)
        return process.end(self.run, ending)


@pytest.fixture
def track(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("events")

    def track(url, *, job_id="job_1"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        return Tracked(folder, url, job_id)

    return track


def test_a_job_is_a_run_with_parameters_curves_tags_and_files(mlflow, tmp_path, track):
    server = mlflow()
    run = track(server.url)
    run.on_event(resolved())
    run.on_event(metrics({"train/loss": [[1, 2.0], [2, 1.5]], "val/accuracy": [[2, 0.5]]}))
    run.on_event(event(EventKind.RESULT, metrics={"test/accuracy": 0.75}, verified=True))
    (tmp_path / "model.onnx").write_bytes(b"onnx" * 100_000)
    (tmp_path / "report.md").write_text("# a model")
    files = [tmp_path / "model.onnx", tmp_path / "report.md", tmp_path / "missing.png"]
    assert run.finish("FINISHED", files) is None
    run_on_server = server.only_run()
    assert run_on_server["name"] == "flowers"
    assert run_on_server["status"] == "FINISHED"
    assert run_on_server["end"] > 0
    assert run_on_server["params"]["training.optimizer.lr"] == "0.002"
    assert run_on_server["params"]["model.name"] == "amdnet"
    assert run_on_server["metrics"] == [
        ("train/loss", 1, 2.0),
        ("train/loss", 2, 1.5),
        ("val/accuracy", 2, 0.5),
        ("test/accuracy", 2, 0.75),
    ]
    assert run_on_server["tags"] == {
        "redkiln.job_id": "job_1",
        "redkiln.dataset_fingerprint": "f00d",
        "redkiln.device": "cpu",
        "redkiln.torch": "2.13",
        "redkiln.verified": "true",
    }
    assert server.experiments == {"redkiln": "1"}
    folder = f"1/{run_on_server['id']}/artifacts"
    assert server.files[f"{folder}/model.onnx"] == b"onnx" * 100_000
    assert set(server.files) == {f"{folder}/model.onnx", f"{folder}/report.md"}


def test_a_jobs_next_attempt_continues_the_same_run(mlflow, track):
    server = mlflow()
    first = track(server.url)
    first.on_event(resolved())
    first.on_event(metrics({"train/loss": [[1, 2.0]]}))
    assert first.finish("RUNNING") is None
    assert server.only_run()["status"] == "RUNNING"
    second = track(server.url)
    # What changed meanwhile is not written over: parameters are written once.
    second.on_event(resolved({"training": {"batch_size": 32, "accumulation": 2}}))
    second.on_event(metrics({"train/loss": [[2, 1.0]]}))
    assert second.finish("FAILED") is None
    run_on_server = server.only_run()
    assert run_on_server["params"]["training.batch_size"] == "64"
    assert run_on_server["params"]["training.accumulation"] == "2"
    assert [step for _, step, _ in run_on_server["metrics"]] == [1, 2]
    assert run_on_server["status"] == "FAILED"
    other = track(server.url, job_id="job_2")
    assert other.finish("KILLED") is None
    assert len(server.runs) == 2
    assert [run["status"] for run in server.runs.values()] == ["FAILED", "KILLED"]


def test_more_than_a_batch_takes_several_requests(mlflow, track):
    server = mlflow()
    run = track(server.url)
    run.on_event(resolved({f"p{n}": n for n in range(250)}))
    run.on_event(metrics({"train/loss": [[step, 1 / step] for step in range(1, 2501)]}))
    assert run.finish("FINISHED") is None
    run_on_server = server.only_run()
    assert len(run_on_server["params"]) == 250
    assert [step for _, step, _ in run_on_server["metrics"]] == list(range(1, 2501))


def test_points_that_are_not_finite_are_omitted(mlflow, track):
    server = mlflow()
    run = track(server.url)
    run.on_event(metrics({"train/loss": [[1, None], [2, float("nan")], [3, 1.0]]}))
    assert run.finish("FAILED") is None
    assert server.only_run()["metrics"] == [("train/loss", 3, 1.0)]


def test_a_temporarily_unreachable_server_misses_nothing(mlflow, track):
    server = mlflow()
    server.away = 3
    run = track(server.url)
    run.on_event(resolved())
    run.on_event(metrics({"train/loss": [[1, 2.0]]}))
    assert run.finish("FINISHED") is None
    assert server.only_run()["metrics"] == [("train/loss", 1, 2.0)]


def test_a_refusal_is_a_warning_that_says_why(mlflow, track):
    server = mlflow()
    server.refuse.add("runs/log-batch")
    run = track(server.url)
    run.on_event(resolved())
    assert run.finish("FINISHED", []) == f"{REFUSED}runs/log-batch is not allowed"


def test_only_the_refused_parameter_is_missing(mlflow, tmp_path, track):
    server = mlflow()
    server.refuse.add("training.batch_size")
    run = track(server.url)
    run.on_event(resolved())
    run.on_event(metrics({"train/loss": [[1, 2.0]]}))
    (tmp_path / "report.md").write_text("# a model")
    warning = run.finish("FINISHED", [tmp_path / "report.md"])
    assert warning == f"{REFUSED}training.batch_size is not allowed"
    run_on_server = server.only_run()
    assert set(run_on_server["params"]) == set(dict(flatten(SPEC))) - {"training.batch_size"}
    assert run_on_server["metrics"] == [("train/loss", 1, 2.0)]
    assert (run_on_server["status"], len(server.files)) == ("FINISHED", 1)


def test_only_the_refused_series_or_file_is_missing(mlflow, tmp_path, track):
    server = mlflow()
    server.refuse |= {"bad", "model.onnx"}
    run = track(server.url)
    run.on_event(metrics({"train/loss": [[1, 2.0]], "bad": [[1, 1.0]], "lr": [[1, 0.1]]}))
    names = ["model.onnx", "report.md"]
    for name in names:
        (tmp_path / name).write_text(name)
    warning = run.finish("FINISHED", [tmp_path / name for name in names])
    assert warning == f"{REFUSED}bad is not allowed"
    run_on_server = server.only_run()
    assert sorted(run_on_server["metrics"]) == [("lr", 1, 0.1), ("train/loss", 1, 2.0)]
    assert [path.rpartition("/")[2] for path in server.files] == ["report.md"]
    assert run_on_server["status"] == "FINISHED"


def test_refused_files_do_not_leave_the_run_running(mlflow, tmp_path, track):
    server = mlflow(artifact_scheme="s3:")
    run = track(server.url)
    (tmp_path / "model.onnx").write_bytes(b"onnx")
    assert "--serve-artifacts" in run.finish("FINISHED", [tmp_path / "model.onnx"])
    assert server.only_run()["status"] == "FINISHED"


CLASSES = [
    ">50K",
    "<=50K",
    "<50K",
    "C++",
    "don't know",
    "spam, unwanted",
    "a:b",
    "\n",
    "für",
    "x" * 300,
]


def test_classes_and_metrics_with_any_name_are_reported(mlflow, track):
    server = mlflow()
    run = track(server.url)
    weights = dict(zip(CLASSES, range(len(CLASSES)), strict=True))
    run.on_event(resolved({"training": {"class_weights": weights}}))
    run.on_event(
        metrics({name: [[1, 0.5]] for name in ("acc%", "acc$", "acc", "../up", "a//b", "", ".")})
    )
    assert run.finish("FINISHED") is None
    run_on_server = server.only_run()
    assert sorted(map(int, run_on_server["params"].values())) == list(range(len(CLASSES)))
    names = [name for name, *_ in run_on_server["metrics"]]
    assert len(set(names)) == 7
    assert {name.partition("-")[0] for name in names if name.startswith("acc")} == {"acc", "acc_"}


def test_an_unreachable_server_is_a_warning_that_says_why(track):
    run = track("http://127.0.0.1:9")
    run.on_event(resolved())
    warning = run.finish("FINISHED", timeout_seconds=0.0)
    assert warning.startswith("MLflow did not accept everything in time: ")
    assert "Connection refused" in warning
