import hashlib

import pytest

from service.bundles.rules import forget_bundles
from service.keys.rules import create_key
from service.settings import Settings

CODE = b"the tar of a folder"
SHA256 = hashlib.sha256(CODE).hexdigest()


@pytest.fixture
def settings(state_dir):
    return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, scripts="on")


def put(client, data=CODE, sha256=None, **options):
    sha256 = sha256 or hashlib.sha256(data).hexdigest()
    headers = {"Content-Type": "application/x-tar", **options.pop("headers", {})}
    return client.put(f"/v1/bundles/{sha256}", content=data, headers=headers, **options)


def script(**fields):
    return {"task": "script", "script": {"command": ["python", "train.py"], **fields}}


def test_code_is_uploaded_once_and_then_found_by_its_digest(client):
    assert client.get(f"/v1/bundles/{SHA256}").status_code == 404
    created = put(client)
    assert created.status_code == 201
    assert created.json()["size_bytes"] == len(CODE)
    found = client.get(f"/v1/bundles/{SHA256}")
    assert found.json()["sha256"] == SHA256
    assert put(client).status_code == 201


def test_code_with_another_digest_is_refused(client):
    assert put(client, sha256="0" * 64).status_code == 422
    assert put(client, b"").status_code in (400, 422)


def test_code_over_the_limit_is_refused(client, settings):
    settings.max_bundle_bytes = 1024
    assert put(client, bytes(2000)).status_code == 413


def test_a_script_must_name_stored_code(client):
    response = client.post("/v1/jobs", json=script(bundle=SHA256))
    assert response.status_code == 422
    (problem,) = response.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/script/bundle", "unknown_bundle")
    put(client)
    assert client.post("/v1/jobs", json=script(bundle=SHA256)).status_code == 202


def test_a_command_that_uses_data_needs_a_data_set(client):
    command = {"command": ["python", "train.py", "--data={data}"]}
    response = client.post("/v1/jobs", json=script(**command))
    (problem,) = response.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/script/command", "no_dataset")
    body = {**script(**command), "dataset": "builtin:digits"}
    assert client.post("/v1/jobs", json=body).status_code == 202


def test_a_misspelt_placeholder_is_refused(client):
    response = client.post("/v1/jobs", json=script(command=["python", "t.py", "--out={uot}"]))
    (problem,) = response.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/script/command", "unknown_placeholder")
    assert problem["message"] == "unknown placeholder {uot}; did you mean {out}?"


def test_the_claim_names_the_code_and_the_worker_can_download_it(client, worker):
    put(client)
    client.post("/v1/jobs", json=script(bundle=SHA256))
    attempt = worker.claim()
    assert attempt.claimed["bundle"] == {"sha256": SHA256, "size_bytes": len(CODE)}
    path = f"/v1/attempts/{attempt.id}/bundle"
    assert client.get(path, headers=attempt.headers).content == CODE
    assert client.get(path).status_code == 401


def test_an_attempt_without_code_has_none(client, worker):
    client.post("/v1/jobs", json=script())
    attempt = worker.claim()
    assert attempt.claimed["bundle"] is None
    path = f"/v1/attempts/{attempt.id}/bundle"
    assert client.get(path, headers=attempt.headers).status_code == 404


def test_a_script_accepts_any_data_set(client):
    spec = {**script(), "dataset": "builtin:digits"}
    assert client.post("/v1/jobs", json=spec).status_code == 202


def test_files_are_published_while_the_attempt_runs_and_stay(client, worker):
    client.post("/v1/jobs", json=script())
    attempt = worker.claim()

    def publish(name, data):
        commit = {
            "name": name,
            "kind": "file",
            "media_type": "text/plain",
            "sha256": attempt.upload(data),
            "size_bytes": len(data),
        }
        return attempt.post("artifacts", **commit), commit

    response, first = publish("adapter/weights.bin", b"one")
    assert response.status_code == 204
    listed = client.get(f"/v1/jobs/{attempt.job_id}/artifacts").json()["data"]
    assert [item["name"] for item in listed] == ["adapter/weights.bin"]
    assert client.get(listed[0]["url"]).content == b"one"
    response, second = publish("adapter/weights.bin", b"two")
    assert response.status_code == 204
    (newer,) = client.get(f"/v1/jobs/{attempt.job_id}/artifacts").json()["data"]
    assert client.get(newer["url"]).content == b"two"
    assert attempt.finish("succeeded", artifacts=[second]).status_code == 200
    (kept,) = client.get(f"/v1/jobs/{attempt.job_id}/artifacts").json()["data"]
    assert kept["id"] == newer["id"], "the same file is the same artifact"
    assert first["sha256"] != second["sha256"]


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a//b", ".hidden", "a/.b", "a\\b", "x ", "a\nb", ""]
)
def test_names_that_point_outside_the_folder_are_refused(client, worker, name):
    client.post("/v1/jobs", json=script())
    attempt = worker.claim()
    commit = {
        "name": name,
        "kind": "file",
        "media_type": "text/plain",
        "sha256": attempt.upload(b"x"),
        "size_bytes": 1,
    }
    assert attempt.post("artifacts", **commit).status_code == 422


def test_only_code_that_no_job_names_is_deleted(client, services):
    put(client)
    put(client, b"unused")
    client.post("/v1/jobs", json=script(bundle=SHA256))
    count = services.database.write(lambda s: forget_bundles(s, older_than_seconds=-10))
    assert count == 1
    assert client.get(f"/v1/bundles/{SHA256}").status_code == 200
    assert client.get(f"/v1/bundles/{hashlib.sha256(b'unused').hexdigest()}").status_code == 404


def test_tasks_show_a_script_with_its_defaults(client):
    tasks = {task["name"]: task for task in client.get("/v1/tasks").json()["data"]}
    defaults = tasks["script"]["defaults"]["script"]
    assert "command" not in defaults
    assert defaults["guard"]["action"] == "stop"


class TestSwitchedOff:
    @pytest.fixture
    def settings(self, state_dir):
        return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600)

    def test_scripts_are_refused_and_everything_else_works(self, client, submit):
        for response in (put(client), client.post("/v1/jobs", json=script())):
            assert response.status_code == 403
            assert response.json()["code"] == "scripts_not_allowed"
            assert "REDKILN_SCRIPTS=on" in response.json()["detail"]
        dry = client.post("/v1/jobs?dry_run=true", json=script())
        assert dry.status_code == 403
        submit()


class TestWithKeys:
    @pytest.fixture
    def settings(self, state_dir):
        return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, auth="keys")

    @pytest.mark.parametrize(
        ("scope", "status"), [("user", 403), ("scripts", 201), ("admin", 201), ("worker", 403)]
    )
    def test_the_scope_of_the_key_decides(self, client, services, scope, status):
        key = services.database.write(lambda s: create_key(s, name="k", scope=scope))
        headers = {"Authorization": f"Bearer {key.secret}"}
        assert put(client, headers=headers).status_code == status
        expected = 202 if status == 201 else 403
        assert client.post("/v1/jobs", json=script(), headers=headers).status_code == expected

    def test_a_scripts_key_may_manage_jobs_but_not_keys(self, client, services):
        key = services.database.write(lambda s: create_key(s, name="k", scope="scripts"))
        headers = {"Authorization": f"Bearer {key.secret}"}
        assert client.get("/v1/jobs", headers=headers).status_code == 200
        assert client.get("/v1/keys", headers=headers).status_code == 403
