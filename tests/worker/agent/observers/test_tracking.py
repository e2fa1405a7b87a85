from datetime import UTC, datetime

import pytest

from redkiln.events import Event, EventKind
from tests.worker.agent.fake_mlflow import FakeMlflow
from worker.agent.observers import tracking
from worker.agent.observers.mlflow import MlflowClient, flatten, make_name
from worker.agent.observers.tracking import RunFacts, Tracking

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
def _hurry(monkeypatch):
    monkeypatch.setattr(tracking, "BATCH_SECONDS", 0.02)


@pytest.fixture
def track():
    begun, faults = [], []

    def track(url, *, job_id="job_1", **options):
        facts = RunFacts("redkiln", job_id, "flowers", {"redkiln.dataset_fingerprint": "f00d"})
        begun.append(Tracking(MlflowClient(url, **options), facts, on_fault=faults.append))
        begun[-1].start()
        return begun[-1]

    yield track
    for run in begun:
        run.halt()
    assert not faults


def test_a_job_is_a_run_with_parameters_curves_tags_and_files(mlflow, tmp_path, track):
    server = mlflow()
    run = track(server.url)
    run.on_event(resolved())
    run.on_event(metrics({"train/loss": [[1, 2.0], [2, 1.5]], "val/accuracy": [[2, 0.5]]}))
    run.on_event(event(EventKind.RESULT, metrics={"test/accuracy": 0.75}, verified=True))
    (tmp_path / "model.onnx").write_bytes(b"onnx" * 100_000)
    (tmp_path / "report.md").write_text("# a model")
    files = [tmp_path / "model.onnx", tmp_path / "report.md", tmp_path / "missing.png"]
    assert run.finish("succeeded", files) is None
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
    assert server.files["1/run1/artifacts/model.onnx"] == b"onnx" * 100_000
    assert set(server.files) == {"1/run1/artifacts/model.onnx", "1/run1/artifacts/report.md"}


def test_a_jobs_next_attempt_continues_the_same_run(mlflow, track):
    server = mlflow()
    first = track(server.url)
    first.on_event(resolved())
    first.on_event(metrics({"train/loss": [[1, 2.0]]}))
    assert first.finish("paused", []) is None
    assert server.only_run()["status"] == "RUNNING"
    second = track(server.url)
    # What changed meanwhile is not written over: parameters are written once.
    second.on_event(resolved({"training": {"batch_size": 32, "accumulation": 2}}))
    second.on_event(metrics({"train/loss": [[2, 1.0]]}))
    assert second.finish("failed", []) is None
    run_on_server = server.only_run()
    assert run_on_server["params"]["training.batch_size"] == "64"
    assert run_on_server["params"]["training.accumulation"] == "2"
    assert [step for _, step, _ in run_on_server["metrics"]] == [1, 2]
    assert run_on_server["status"] == "FAILED"
    other = track(server.url, job_id="job_2")
    assert other.finish("cancelled", []) is None
    assert len(server.runs) == 2
    assert server.runs["run2"]["status"] == "KILLED"


def test_more_than_a_batch_takes_several_requests(mlflow, track):
    server = mlflow()
    run = track(server.url)
    run.on_event(resolved({f"p{n}": n for n in range(250)}))
    run.on_event(metrics({"train/loss": [[step, 1 / step] for step in range(1, 2501)]}))
    assert run.finish("succeeded", []) is None
    run_on_server = server.only_run()
    assert len(run_on_server["params"]) == 250
    assert [step for _, step, _ in run_on_server["metrics"]] == list(range(1, 2501))


def test_points_that_are_not_finite_are_omitted(mlflow, track):
    server = mlflow()
    run = track(server.url)
    run.on_event(metrics({"train/loss": [[1, None], [2, float("nan")], [3, 1.0]]}))
    assert run.finish("failed", []) is None
    assert server.only_run()["metrics"] == [("train/loss", 3, 1.0)]


def test_a_temporarily_unreachable_server_misses_nothing(mlflow, track):
    server = mlflow()
    server.away = 3
    run = track(server.url)
    run.on_event(resolved())
    run.on_event(metrics({"train/loss": [[1, 2.0]]}))
    assert run.finish("succeeded", []) is None
    assert server.only_run()["metrics"] == [("train/loss", 1, 2.0)]


def test_a_server_that_never_answers_causes_a_warning_and_no_long_wait(monkeypatch, track):
    monkeypatch.setattr(tracking, "CLOSE_SECONDS", 0.5)
    run = track("http://127.0.0.1:9")
    run.on_event(resolved())
    warning = run.finish("succeeded", [])
    assert warning is not None
    assert "did not take everything in time" in warning


def test_a_refusal_is_a_warning_that_says_why(mlflow, track):
    server = mlflow()
    server.refuse.add("runs/log-batch")
    run = track(server.url)
    run.on_event(resolved())
    assert run.finish("succeeded", []) == (
        "MLflow refused some of the run's data: runs/log-batch is not allowed (400)"
    )


def test_only_the_refused_parameter_is_missing(mlflow, tmp_path, track):
    server = mlflow()
    server.refuse.add("training.batch_size")
    run = track(server.url)
    run.on_event(resolved())
    run.on_event(metrics({"train/loss": [[1, 2.0]]}))
    (tmp_path / "report.md").write_text("# a model")
    warning = run.finish("succeeded", [tmp_path / "report.md"])
    assert (
        warning == "MLflow refused some of the run's data: training.batch_size is not allowed (400)"
    )
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
    warning = run.finish("succeeded", [tmp_path / name for name in names])
    assert warning == "MLflow refused some of the run's data: bad is not allowed (400)"
    run_on_server = server.only_run()
    assert sorted(run_on_server["metrics"]) == [("lr", 1, 0.1), ("train/loss", 1, 2.0)]
    assert list(server.files) == ["1/run1/artifacts/report.md"]
    assert run_on_server["status"] == "FINISHED"


def test_refused_files_do_not_leave_the_run_running(mlflow, tmp_path, track):
    server = mlflow(artifact_scheme="s3:")
    run = track(server.url)
    (tmp_path / "model.onnx").write_bytes(b"onnx")
    assert "--serve-artifacts" in run.finish("succeeded", [tmp_path / "model.onnx"])
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
    assert run.finish("succeeded", []) is None
    run_on_server = server.only_run()
    assert sorted(map(int, run_on_server["params"].values())) == list(range(len(CLASSES)))
    names = [name for name, *_ in run_on_server["metrics"]]
    assert len(set(names)) == 7
    assert {name.partition("-")[0] for name in names if name.startswith("acc")} == {"acc", "acc_"}


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("training.optimizer.lr", "training.optimizer.lr"),
        ("val/accuracy of für", "val/accuracy of für"),
        ("training.class_weights.>50K", "training.class_weights._50K-112c3242"),
        ("val/acc%", "val/acc_-"),
        ("../up", "_up-"),
        ("x" * 251, "x" * 241 + "-"),
    ],
)
def test_a_name_that_servers_refuse_is_replaced_by_a_valid_one(name, made):
    assert make_name(name).startswith(made)
    assert make_name(name) == name or len(make_name(name).rpartition("-")[2]) == 8


@pytest.mark.parametrize(
    ("reported", "actual", "status"),
    [
        ("succeeded", "cancelled", "KILLED"),
        ("succeeded", "failed", "FAILED"),
        ("paused", "cancelled", "KILLED"),
        ("succeeded", "succeeded", "FINISHED"),
    ],
)
def test_a_changed_outcome_is_corrected_on_the_server(mlflow, reported, actual, status, track):
    server = mlflow()
    run = track(server.url)
    run.on_event(resolved())
    assert run.finish(reported, []) is None
    run.correct(actual)
    assert server.only_run()["status"] == status
    updates = [path for _, path in server.calls if path.endswith("runs/update")]
    assert len(updates) == (reported != "paused") + (reported != actual)


def test_a_correction_that_does_not_arrive_harms_nothing(mlflow, track):
    server = mlflow()
    run = track(server.url)
    assert run.finish("succeeded", []) is None
    server.refuse.add("runs/update")
    run.correct("cancelled")
    assert server.only_run()["status"] == "FINISHED"


def test_files_that_the_server_does_not_accept_cause_a_warning(mlflow, tmp_path, track):
    server = mlflow(artifact_scheme="s3:")
    run = track(server.url)
    (tmp_path / "model.onnx").write_bytes(b"onnx")
    warning = run.finish("succeeded", [tmp_path / "model.onnx"])
    assert warning is not None
    assert "--serve-artifacts" in warning


def test_data_that_waits_for_the_server_is_bounded(monkeypatch):
    monkeypatch.setattr(tracking, "MAX_WAITING", 10)
    facts = RunFacts("redkiln", "job_1", "flowers", {})
    run = Tracking(MlflowClient("http://127.0.0.1:9"), facts, on_fault=pytest.fail)
    run.on_event(metrics({"train/loss": [[step, 1.0] for step in range(25)]}))
    assert [m.step for m in run._news.metrics] == list(range(15, 25))
    assert run._news.num_lost == 15


@pytest.mark.parametrize(
    ("options", "authorization"),
    [({"token": "secret"}, "Bearer secret"), ({}, "Basic bWU6cHc=")],
)
def test_credentials_are_sent_to_the_server(mlflow, options, authorization, track):
    server = mlflow()
    url = server.url if options else server.url.replace("http://", "http://me:pw@")
    assert track(url, **options).finish("succeeded", []) is None
    assert server.authorizations == {authorization}


def test_a_spec_is_flattened_into_parameters():
    assert dict(flatten(SPEC)) == {
        "model.name": "amdnet",
        "model.options.image_size": "32",
        "training.batch_size": "64",
        "training.optimizer.lr": "0.002",
        "training.optimizer.betas": "[0.9, 0.999]",
    }


def test_an_attempt_that_never_started_does_not_wait():
    facts = RunFacts("redkiln", "job_1", "flowers", {})
    run = Tracking(MlflowClient("http://127.0.0.1:9"), facts, on_fault=pytest.fail)
    assert run.finish("failed", []) is None
