import pytest
from sqlmodel import select

from service import housekeeping
from service.app import create_app
from service.datasets.models import Dataset
from service.errors import DatabaseBusy
from service.jobs.models import IdempotencyKey, Job


class Bell:
    """A doorbell that only listens."""

    state = "up"

    def __init__(self):
        self.rung = []

    def ring(self, job_ids):
        self.rung += sorted(job_ids)


def test_only_jobs_that_waited_long_are_announced_again(submit, worker, services, monkeypatch):
    taken, waiting = submit()["id"], submit()["id"]
    assert worker.claim().job_id == taken
    assert housekeeping.republish(services) == 0
    services.settings.republish_seconds = 1e-6
    assert housekeeping.republish(services) == 1
    published = services.database.read(lambda s: s.get(Job, waiting).published_at)
    assert published > services.database.read(lambda s: s.get(Job, waiting).created_at)


def test_a_job_without_a_data_set_is_announced_again_and_not_failed(client, services):
    assert client.post("/v1/jobs", json={"task": "benchmark"}).status_code == 202
    services.settings.republish_seconds = 1e-6
    assert housekeeping.republish(services) == 1
    assert housekeeping.fail_jobs_of_invalid_datasets(services) == 0


def test_a_job_whose_data_set_is_invalid_fails_with_bad_input(submit, services, job, kinds):
    job_id = submit()["id"]

    def spoil(session):
        dataset = session.exec(select(Dataset).where(Dataset.name == "builtin:digits")).one()
        dataset.status = "invalid"
        session.add(dataset)

    services.database.write(spoil)
    assert housekeeping.fail_jobs_of_invalid_datasets(services) == 1
    assert housekeeping.fail_jobs_of_invalid_datasets(services) == 0
    assert job(job_id)["reason"]["code"] == "bad_input"
    assert kinds(job_id) == ["submitted", "failed"]


def test_two_housekeepers_lose_an_attempt_once(submit, worker, expire, services, kinds):
    job_id = submit()["id"]
    attempt = worker.claim()
    expire(attempt)
    import threading

    counts = []
    threads = [
        threading.Thread(target=lambda: counts.append(housekeeping.reap_expired(services)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 1
    assert kinds(job_id) == ["submitted", "started", "requeued"]


def test_a_restarted_service_gives_running_attempts_a_fresh_lease(
    settings, serve, submit, worker, expire, services, client
):
    job_id = submit()["id"]
    attempt = worker.claim()
    expire(attempt)
    app = create_app(settings)
    serve(app)
    assert housekeeping.reap_expired(app.state.services) == 0
    assert attempt.report().status_code == 200
    assert client.get(f"/v1/jobs/{job_id}").json()["status"] == "running"


def test_old_idempotency_keys_are_deleted(client, services):
    spec = {"dataset": "builtin:digits"}
    client.post("/v1/jobs", json=spec, headers={"Idempotency-Key": "k"})
    housekeeping.forget_keys(services)
    assert services.database.read(lambda s: s.exec(select(IdempotencyKey)).all())
    services.settings.idempotency_days = 1e-12
    housekeeping.forget_keys(services)
    assert not services.database.read(lambda s: s.exec(select(IdempotencyKey)).all())


def test_logs_without_an_attempt_are_removed(services, submit, worker):
    submit()
    attempt = worker.claim()
    attempt.report(log=(0, b"mine"))
    stray = services.settings.logs_dir / "att_0000000000000000000000.log"
    stray.write_text("left over")
    housekeeping.sweep_logs(services)
    assert [path.stem for path in services.settings.logs_dir.iterdir()] == [attempt.id]


@pytest.mark.parametrize("error", [DatabaseBusy("locked"), RuntimeError("a bug")])
def test_a_step_that_fails_does_not_stop_the_others(settings, serve, monkeypatch, error):
    import threading

    reached = threading.Event()

    def fail(services):
        raise error

    monkeypatch.setattr(housekeeping, "STEPS", [fail, lambda services: reached.set()])
    settings.reap_seconds = 0.01
    serve(create_app(settings))
    assert reached.wait(60)


def test_attempts_get_a_new_lease_after_the_database_was_away(
    submit, worker, services, monkeypatch
):
    submit()
    attempt = worker.claim()
    services.settings.lease_seconds = 1e-6
    attempt.report()  # its lease expires at once
    services.settings.lease_seconds = 60
    keeper = housekeeping.Housekeeping(services)
    is_away = [True]

    def reap(services):
        if is_away:
            raise DatabaseBusy("away")
        return housekeeping.reap_expired(services)

    monkeypatch.setattr(housekeeping, "STEPS", [reap])
    monkeypatch.setattr(housekeeping, "SWEEPS", [])
    keeper._run_round()
    is_away.clear()
    keeper._run_round()
    assert attempt.report().status_code == 200
