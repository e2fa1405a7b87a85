"""A key sees and steers what its own project owns; an admin sees everything."""

import hashlib

from service.app import _build_routes
from service.projects.owners import has_owner
from tests.service.conftest import Worker

FREE = {"worker_id", "key", "key_id", "session_id", "sha256", "task"}
"""Parameters of paths that name something without an owner, or the caller's own."""


def test_every_parameter_of_a_path_has_an_owner_or_needs_none():
    unknown = {
        (route.path, parameter)
        for route in _build_routes()
        for parameter in getattr(route, "param_convertors", {})
        if route.path.startswith("/v1/")
        and not route.path.startswith("/v1/attempts/")
        and not (has_owner(parameter) or parameter in FREE)
        and "{name}" not in route.path
        and "{job_id}" not in route.path
        and "{upload_id}" not in route.path
    }
    assert not unknown


def test_a_project_sees_only_its_own_jobs_and_an_admin_sees_all(people):
    cats, dogs, admin = people
    job = cats.submit(name="mine").json()
    assert job["project"] == "cats"
    assert cats.ids("/v1/jobs") == admin.ids("/v1/jobs") == [job["id"]]
    assert admin.ids("/v1/jobs?project=cats") == [job["id"]]
    assert admin.ids("/v1/jobs?project=dogs") == dogs.ids("/v1/jobs") == []
    assert dogs.ids("/v1/jobs?metadata.k=v") == dogs.ids("/v1/jobs?sort=queue&q=mine") == []
    refused = dogs.get("/v1/jobs?project=cats")
    assert (refused.status_code, refused.json()["code"]) == (403, "other_project")


def test_another_projects_job_answers_like_one_that_does_not_exist(people):
    cats, dogs, _ = people
    job_id = cats.submit().json()["id"]
    missing = job_id[:-1] + ("1" if job_id[-1] == "0" else "0")
    for method, path, body in (
        ("GET", "", None),
        ("GET", "/events", None),
        ("GET", "/logs?follow=true", None),
        ("GET", "/metrics", None),
        ("GET", "/artifacts", None),
        ("GET", "/differences", None),
        ("POST", "/cancel", None),
        ("POST", "/priority", {"priority": 1}),
        ("POST", "/export", {}),
        ("DELETE", "", None),
    ):
        for asked in (job_id, missing):
            response = dogs.ask(method, f"/v1/jobs/{asked}{path}", json=body)
            answer = (response.status_code, response.json()["detail"])
            assert answer == (
                404,
                f"there is no job {asked!r}; GET /v1/jobs lists the jobs with their ids",
            ), path
    assert cats.get(f"/v1/jobs/{job_id}").json()["status"] == "queued"


def test_a_bulk_change_stays_in_its_project(people):
    cats, dogs, admin = people
    job_id = cats.submit().json()["id"]
    assert dogs.ask("POST", "/v1/jobs/cancel?status=queued").json()["done"] == []
    assert cats.get(f"/v1/jobs/{job_id}").json()["status"] == "queued"
    done = admin.ask("POST", "/v1/jobs/cancel?status=queued&project=cats").json()["done"]
    assert [job["id"] for job in done] == [job_id]


def test_a_job_is_not_moved_beside_another_projects_job(people):
    cats, dogs, _ = people
    theirs, mine = cats.submit().json()["id"], dogs.submit().json()["id"]
    refused = dogs.ask("POST", f"/v1/jobs/{mine}/move", json={"before": theirs})
    assert refused.status_code == 404
    assert refused.json()["detail"].startswith(f"there is no job {theirs!r};")


def test_data_sets_are_named_seen_and_used_by_project(people):
    cats, dogs, admin = people
    theirs = cats.push().json()
    mine = dogs.push().json()
    assert theirs["id"] != mine["id"]
    assert dogs.ids("/v1/datasets?name=pets") == [mine["id"]]
    assert len(admin.ids("/v1/datasets?name=pets")) == 2
    assert "builtin:digits" in {one["name"] for one in dogs.get("/v1/datasets").json()["data"]}
    for method in ("GET", "DELETE"):
        assert dogs.ask(method, f"/v1/datasets/{theirs['id']}").status_code == 404
    assert dogs.get(f"/v1/datasets/{theirs['id']}/rows").status_code == 404
    refused = dogs.submit(dataset=theirs["id"])
    assert refused.json()["errors"][0]["code"] == "unknown_dataset"


def test_naming_the_digest_of_another_projects_data_set_gives_no_access_to_it(people):
    cats, dogs, _ = people
    content = b"x,y\n1,2\n3,4\n"
    cats.push(data=content)
    new = {
        "name": "pets",
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
    }
    begun = {one.project: one.ask("POST", "/v1/uploads", json=new) for one in (cats, dogs)}
    assert begun["cats"].json()["dataset"] is not None
    assert begun["dogs"].json()["dataset"] is None
    upload_id = begun["dogs"].json()["id"]
    assert cats.get(f"/v1/uploads/{upload_id}").status_code == 404
    assert dogs.get(f"/v1/uploads/{upload_id}").status_code == 200


def test_weights_files_and_models_of_another_project_cannot_be_used(keyed, people, settings):
    cats, dogs, admin = people
    _, client = keyed
    job_id = cats.submit().json()["id"]
    worker = Worker(client, (settings.keys_dir / "worker.key").read_text().strip())
    worker.hello()
    attempt = worker.claim()
    model = attempt.artifact("model", "model.onnx", b"onnx")
    files = [model, attempt.artifact("manifest", "manifest.json", b"{}")]
    assert attempt.finish("succeeded", artifacts=files).status_code == 200
    artifact_id = cats.ids(f"/v1/jobs/{job_id}/artifacts")[0]
    for path in ("", "/content", "/signature"):
        assert cats.get(f"/v1/artifacts/{artifact_id}{path}").status_code == 200
        assert dogs.get(f"/v1/artifacts/{artifact_id}{path}").status_code == 404
    refused = dogs.submit(model={"pretrained": f"job:{job_id}"})
    assert refused.json()["errors"][0]["message"].startswith(f"there is no job '{job_id}'")
    started = {"command": ["true"], "start_from": f"job:{job_id}"}
    refused = dogs.submit(task="script", script=started)
    assert refused.json()["errors"][0]["message"].startswith(f"there is no job '{job_id}'")
    new = {"name": "cat", "job": job_id}
    assert dogs.ask("POST", "/v1/models", json=new).status_code == 404
    assert cats.ask("POST", "/v1/models", json=new).status_code == 201
    for path in ("/v1/models/cat", "/v1/models/cat@latest", "/v1/models/cat/versions/1/content"):
        assert cats.get(path).status_code == 200
        assert dogs.get(path).status_code == 404
    assert (cats.ids("/v1/models"), dogs.ids("/v1/models")) == (["cat"], [])
    assert admin.get("/v1/models/cat").json()["project"] == "cats"


def test_the_overview_and_the_use_of_storage_are_those_of_the_project(people):
    cats, dogs, _ = people
    job_id = cats.submit().json()["id"]
    cats.push()
    waiting = [[job["id"] for job in one.get("/v1/overview").json()["waiting"]] for one in people]
    assert waiting == [[job_id], [], [job_id]]
    assert dogs.get("/v1/overview").json()["counts"]["queued"] == 0
    counts = [
        {kind["kind"]: kind["count"] for kind in one.get("/v1/storage").json()["kinds"]}
        for one in people
    ]
    assert [found["datasets"] for found in counts] == [1, 0, 1]
    assert "database" not in counts[0]
    assert "database" in counts[2]


def test_a_gpu_that_runs_another_projects_job_hides_it_and_cannot_be_freed(keyed, people, settings):
    cats, dogs, admin = people
    _, client = keyed
    job_id = cats.submit().json()["id"]
    gpu = {"index": 0, "name": "card", "arch": "gfx1100", "memory_bytes": 1, "pci_address": "0000"}
    worker = Worker(client, (settings.keys_dir / "worker.key").read_text().strip(), gpus=[gpu])
    worker.hello()
    attempt = worker.claim()
    state = {"key": "0000", "facts": {"gfx": "gfx1100"}, "attempt_id": attempt.id}
    body = {"worker_id": worker.id, "boot_id": worker.boot_id, "seq": 1, "gpus": [state]}
    told = client.post("/v1/workers/status", json=body, headers=worker.headers)
    assert told.status_code == 200, told.text
    seen = [one.get("/v1/gpus").json()["data"][0] for one in people]
    assert [gpu["job_id"] for gpu in seen] == [job_id, None, job_id]
    assert seen[1]["attempt_id"] == attempt.id
    path = f"/v1/gpus/{worker.id}/0000/free"
    refused = dogs.ask("POST", path)
    assert (refused.status_code, refused.json()["code"]) == (403, "other_project")
    assert cats.ask("POST", path).status_code == 202
    assert dogs.ask("DELETE", path).status_code == 403
    assert admin.get(f"/v1/jobs/{job_id}").json()["status"] == "pausing"


def test_without_keys_everything_is_of_the_default_project(client, submit):
    assert submit()["project"] == "default"
    assert client.get("/v1/jobs?project=default").json()["data"]
