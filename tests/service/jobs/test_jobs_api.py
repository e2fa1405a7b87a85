import pytest

from redkiln.tasks import TASKS, needs_dataset
from redkiln.views.job import MAX_QUEUE_POSITION
from service.ids import new_id
from service.jobs.models import JOB, Job

MISSING = "job_" + "0" * 22


def ids(page):
    return [job["id"] for job in page["data"]]


def test_jobs_are_listed_newest_first_in_pages(client, submit):
    made = [submit()["id"] for _ in range(5)][::-1]
    first = client.get("/v1/jobs?limit=2").json()
    assert ids(first) == made[:2]
    assert first["has_more"] is True
    rest = client.get(f"/v1/jobs?limit=3&after={first['last_id']}").json()
    assert ids(rest) == made[2:]
    assert rest["has_more"] is False


def test_jobs_are_filtered_by_status_task_and_metadata(client, submit):
    first = submit(metadata={"team": "a", "x.y": "1"})["id"]
    second = submit(metadata={"team": "b"})["id"]
    client.post(f"/v1/jobs/{second}/cancel")
    assert ids(client.get("/v1/jobs?status=queued").json()) == [first]
    assert ids(client.get("/v1/jobs?status=queued&status=cancelled").json()) == [second, first]
    assert ids(client.get("/v1/jobs?metadata.team=b").json()) == [second]
    assert ids(client.get("/v1/jobs?metadata.x.y=1&metadata.team=a").json()) == [first]
    assert ids(client.get("/v1/jobs?metadata.team=c").json()) == []
    assert ids(client.get("/v1/jobs?task=other").json()) == []
    assert len(ids(client.get("/v1/jobs?task=image-classification").json())) == 2


def test_a_list_shows_the_queue_positions_of_waiting_jobs(client, submit):
    first, second, third = (submit(priority=priority)["id"] for priority in (0, 5, 0))
    client.post(f"/v1/jobs/{third}/cancel")
    listed = client.get("/v1/jobs").json()["data"]
    positions = {job["id"]: job["queue_position"] for job in listed}
    assert positions == {first: 2, second: 1, third: None}


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "after=ds_1", "status=asleep", "metadata.=1",
     "metadata.a%22b=1", "after=job_1"],
)  # fmt: skip
def test_a_bad_filter_is_refused(client, query):
    response = client.get(f"/v1/jobs?{query}")
    assert response.status_code == 422
    assert response.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(("num", "status"), [(32, 200), (33, 422), (2000, 422)])
def test_a_list_is_selected_by_as_many_metadata_as_a_job_may_have(client, num, status):
    query = "&".join(f"metadata.k{number}=v" for number in range(num))
    assert client.get(f"/v1/jobs?{query}").status_code == status


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", ""), ("POST", "/cancel"), ("DELETE", ""), ("GET", "/events"), ("GET", "/logs"),
     ("GET", "/metrics"), ("GET", "/telemetry")],
)  # fmt: skip
def test_an_unknown_job_is_404_everywhere(client, method, path):
    response = client.request(method, f"/v1/jobs/{MISSING}{path}")
    assert response.status_code == 404
    assert response.json()["code"] == "not_found"


def test_the_queue_is_by_priority_then_age(submit, job):
    first, second, urgent = submit()["id"], submit()["id"], submit(priority=5)["id"]
    positions = {id_: job(id_)["queue_position"] for id_ in (first, second, urgent)}
    assert positions == {urgent: 1, first: 2, second: 3}


def test_a_queue_position_changes_without_a_change_of_the_job(client, submit, job):
    first, second = submit()["id"], submit()["id"]
    assert [job(second)["queue_position"] for _ in range(2)] == [2, 2]
    client.post(f"/v1/jobs/{first}/cancel")
    assert job(second)["queue_position"] == 1
    submit(priority=5)
    assert job(second)["queue_position"] == 2


def test_the_queue_is_not_counted_to_its_end(services, submit, job):
    first = submit()["id"]
    row = services.database.read(lambda s: s.get(Job, first)).model_dump()
    row["metadata"] = row.pop("user_metadata")  # by columns, as Core wants them
    rows = [{**row, "id": new_id("job")} for _ in range(MAX_QUEUE_POSITION)]
    services.database.write(lambda s: s.execute(JOB.insert(), rows))
    ids = sorted(row["id"] for row in rows)
    assert job(ids[MAX_QUEUE_POSITION - 3])["queue_position"] == MAX_QUEUE_POSITION - 1
    assert job(ids[MAX_QUEUE_POSITION - 2])["queue_position"] == MAX_QUEUE_POSITION
    assert job(ids[MAX_QUEUE_POSITION - 1])["queue_position"] == MAX_QUEUE_POSITION


def test_a_job_shows_only_the_fields_that_its_model_reads(services, submit, job):
    spec = {"model": {"name": "gradient-boosting"}, "training": {"batch_size": 8, "seed": 1}}
    made = submit()["id"]
    changed = {"spec": spec, "resolved_spec": {**spec, "training": {"ema": None, "seed": 2}}}
    statement = JOB.update().where(JOB.c.id == made).values(**changed)
    services.database.write(lambda s: s.execute(statement))
    shown = job(made)
    assert shown["spec"]["training"] == {"seed": 1}
    assert shown["resolved_spec"]["training"] == {"seed": 2}


def test_cancelling_a_queued_job_never_starts_it(client, submit, worker, kinds):
    job_id = submit()["id"]
    response = client.post(f"/v1/jobs/{job_id}/cancel")
    assert (response.status_code, response.json()["status"]) == (200, "cancelled")
    assert response.json()["reason"]["code"] == "cancelled"
    assert response.json()["finished_at"] is not None
    assert worker.ask().status_code == 204
    assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200
    assert kinds(job_id) == ["submitted", "cancelled"]


def test_a_running_job_is_cancelled_when_its_worker_has_stopped(client, submit, worker, kinds, job):
    job_id = submit()["id"]
    attempt = worker.claim()
    assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    assert job(job_id)["status"] == "cancelling"
    assert attempt.report().json()["command"] == "cancel"
    assert attempt.finish("cancelled").json() == {"job_status": "cancelled"}
    assert job(job_id)["attempts"][0]["status"] == "cancelled"
    assert kinds(job_id) == ["submitted", "started", "cancelling", "cancelled"]


def test_a_finished_job_cannot_be_cancelled(client, submit, worker):
    job_id = submit()["id"]
    worker.claim().succeed()
    response = client.post(f"/v1/jobs/{job_id}/cancel")
    assert response.status_code == 409
    assert response.json()["code"] == "job_succeeded"


def test_an_active_job_cannot_be_deleted(client, submit, worker):
    job_id = submit()["id"]
    assert client.delete(f"/v1/jobs/{job_id}").status_code == 409
    worker.claim()
    assert client.delete(f"/v1/jobs/{job_id}").json()["code"] == "job_active"


def test_a_deleted_job_is_gone_with_everything_that_belonged_to_it(
    client, submit, worker, services
):
    from service.housekeeping import collect_blobs

    job_id = submit()["id"]
    attempt = worker.claim()
    attempt.report(log=(0, b"hello\n"))
    attempt.succeed(b'{"only": "mine"}')
    artifact = client.get(f"/v1/jobs/{job_id}/artifacts").json()["data"][0]
    log_path = services.settings.logs_dir / f"{attempt.id}.log"
    assert log_path.exists()
    assert client.delete(f"/v1/jobs/{job_id}").status_code == 204
    collect_blobs(services)
    assert client.get(f"/v1/jobs/{job_id}").status_code == 404
    assert client.get(artifact["url"]).status_code == 404
    assert services.storage.stat(artifact["sha256"]) is None
    assert not log_path.exists()
    assert attempt.report().status_code == 410


def test_bytes_that_another_job_needs_outlive_a_deleted_one(client, submit, worker, services):
    from service.housekeeping import collect_blobs

    jobs = [submit()["id"], submit()["id"]]
    for _ in jobs:
        worker.claim().succeed(b"shared")
    artifact = client.get(f"/v1/jobs/{jobs[1]}/artifacts").json()["data"][0]
    client.delete(f"/v1/jobs/{jobs[0]}")
    collect_blobs(services)
    assert client.get(artifact["url"]).content == b"shared"


def test_tasks_are_listed_with_their_defaults_and_schemas(client):
    tasks = {task["name"]: task for task in client.get("/v1/tasks").json()["data"]}
    assert set(tasks) == set(TASKS)
    for name, task in tasks.items():
        schema = client.get(task["schema_url"]).json()
        assert schema["properties"]["task"]["const"] == name
        assert ("dataset" in schema.get("required", [])) == needs_dataset(name)
        unset = {"task", *TASKS[name].required} - task["defaults"].keys()
        assert task["defaults"].keys() | unset == schema["properties"].keys()
    assert tasks["image-classification"]["defaults"]["training"]["optimizer"]["name"] == "adamw"
    assert client.get("/v1/tasks/nothing/schema").status_code == 404


@pytest.mark.parametrize("task", TASKS)
def test_a_schema_that_has_not_changed_is_not_sent_again(client, task):
    response = client.get(f"/v1/tasks/{task}/schema")
    again = client.get(
        f"/v1/tasks/{task}/schema", headers={"If-None-Match": response.headers["ETag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


def test_health_needs_no_worker_but_readiness_does(client, worker_key, worker):
    assert client.get("/healthz").json()["status"] == "ok"
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["checks"] == {"database": "ok", "live_workers": 1, "broker": "off"}


def test_without_a_worker_the_service_is_not_ready(client):
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"]["live_workers"] == 0
