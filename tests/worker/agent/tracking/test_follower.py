from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest

from redkiln.events import Event, EventKind
from tests.worker.agent.fake_mlflow import FakeMlflow
from worker.agent.tracking import follower
from worker.agent.tracking.follower import Follower, FollowerDied, build_environment
from worker.agent.tracking.messages import RunFacts

OWN = {"PATH": "/usr/bin", "HOME": "/home/me", "HTTP_PROXY": "http://proxy", "MLFLOW_RUN_ID": "x"}


@pytest.fixture
def mlflow():
    server = FakeMlflow()
    yield server
    server.close()


@pytest.fixture
def follow(tmp_path, settings):
    """Starts the real process, whose log is `mlflow.log`."""
    begun = []

    def follow(url, *, token=None):
        chosen = settings.model_copy(update={"mlflow_tracking_uri": url, "mlflow_token": token})
        facts = RunFacts(
            events_path=tmp_path / "events.jsonl",
            experiment="redkiln",
            job_id="job_1",
            job_name="flowers",
            tags={},
        )
        begun.append(
            Follower(
                facts,
                environment=build_environment(chosen, OWN, home=tmp_path),
                log_path=tmp_path / "mlflow.log",
            )
        )
        begun[-1].start()
        return begun[-1]

    yield follow
    for process in begun:
        process.halt()


def write(path, points):
    event = Event(at=datetime.now(UTC), kind=EventKind.METRICS, data={"points": points})
    with path.open("a") as file:
        file.write(event.model_dump_json() + "\n")


def test_the_process_catches_up_with_a_server_that_was_away(mlflow, follow, tmp_path):
    mlflow.away = 1
    write(tmp_path / "events.jsonl", {"train/loss": [[1, 2.0]]})
    process = follow(mlflow.url.replace("http://", "http://me:s3cret@"))
    write(tmp_path / "events.jsonl", {"train/loss": [[2, 1.0]]})
    assert process.finish("succeeded", []) is None
    run = mlflow.only_run()
    assert run["metrics"] == [("train/loss", 1, 2.0), ("train/loss", 2, 1.0)]
    assert run["status"] == "FINISHED"
    assert mlflow.authorizations == {"Basic bWU6czNjcmV0"}
    text = (tmp_path / "mlflow.log").read_text()
    assert mlflow.away == 0
    assert "s3cret" not in text


@pytest.mark.usefixtures("fork_mlflow")
def test_the_tokens_and_the_address_are_only_in_the_environment(
    mlflow, follow, tmp_path, monkeypatch
):
    monkeypatch.setattr(follower, "HURRY_SECONDS", 60.0)
    process = follow(mlflow.url, token="t0ken")
    command = process._process.args
    assert process.finish("paused", []) is None
    assert mlflow.authorizations == {"Bearer t0ken"}
    assert mlflow.only_run()["status"] == "RUNNING"
    assert mlflow.url not in " ".join(command)
    assert "t0ken" not in " ".join([*command, (tmp_path / "mlflow.log").read_text()])


@pytest.mark.usefixtures("fork_mlflow")
def test_a_changed_outcome_is_corrected_on_the_server(mlflow, follow):
    process = follow(mlflow.url)
    assert process.finish("succeeded", []) is None
    updates = len(mlflow.calls)
    process.correct("succeeded")
    assert len(mlflow.calls) == updates
    process.correct("cancelled")
    assert mlflow.only_run()["status"] == "KILLED"
    assert mlflow.only_run()["metrics"] == []


@pytest.mark.usefixtures("fork_mlflow")
def test_a_process_that_dies_leaves_a_readable_reason(follow):
    process = follow("nowhere://")
    with pytest.raises(FollowerDied, match="nowhere"):
        process.finish("succeeded", [])


@pytest.mark.usefixtures("fork_mlflow")
def test_a_server_that_never_answers_delays_the_end_for_a_bounded_time(follow, monkeypatch):
    monkeypatch.setattr(follower, "HURRY_SECONDS", 0.0)
    monkeypatch.setattr(follower, "GRACE_SECONDS", 0.0)
    process = follow("http://127.0.0.1:9")
    assert "did not accept everything in time" in process.finish("paused", [])


def test_an_attempt_that_never_started_does_not_wait(tmp_path):
    facts = RunFacts(
        events_path=tmp_path, experiment="e", job_id="job_1", job_name="flowers", tags={}
    )
    assert Follower(facts, environment={}, log_path=tmp_path).finish("failed", []) is None


@pytest.mark.usefixtures("fork_mlflow")
def test_the_process_ends_with_the_agent(mlflow, follow):
    process = follow(mlflow.url)._process
    process.stdin.close()
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("uri", "token", "credentials"),
    [
        ("https://ml/path", None, {}),
        (
            "https://me:p%40ss@ml/path",
            None,
            {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "p@ss"},
        ),
        ("https://me:p%40ss@ml/path", "t0ken", {"MLFLOW_TRACKING_TOKEN": "t0ken"}),
    ],
)
def test_the_environment_has_the_credentials_that_were_set_and_no_others(
    settings, tmp_path, uri, token, credentials
):
    chosen = settings.model_copy(update={"mlflow_tracking_uri": uri, "mlflow_token": token})
    environment = build_environment(chosen, OWN, home=tmp_path)
    found = {name: value for name, value in environment.items() if "TRACKING" in name}
    assert found == {"MLFLOW_TRACKING_URI": "https://ml/path", **credentials}
    assert urlsplit(environment["MLFLOW_TRACKING_URI"]).password is None
    assert environment["HOME"] == str(tmp_path)
    assert environment.keys().isdisjoint({"HTTP_PROXY", "MLFLOW_RUN_ID"})
