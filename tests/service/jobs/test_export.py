"""A further export of a finished job, as a separate job."""

import pytest

CHECKPOINT, MANIFEST = b"weights", b'{"best": {}}'
FILES = (
    ("checkpoint.safetensors", "checkpoint", CHECKPOINT),
    ("manifest.json", "manifest", MANIFEST),
)


@pytest.fixture
def finish(submit, worker):
    """Run a job that leaves some of its files; return its id."""

    def finish(*, files=FILES, **spec):
        submitted = submit(**spec)
        attempt = worker.claim()
        resolved = {**submitted["spec"], "model": {"source": "builtin", "name": "mnist-cnn"}}
        said = ("resolved", {"spec": resolved, "environment": {}})
        assert attempt.report(said).status_code == 200
        commits = [
            {
                "name": name,
                "kind": kind,
                "media_type": "application/octet-stream",
                "sha256": attempt.upload(content),
                "size_bytes": len(content),
            }
            for name, kind, content in files
        ]
        assert attempt.finish("succeeded", artifacts=commits).status_code == 200
        return submitted["id"]

    return finish


def test_a_finished_job_is_exported_by_a_job_that_gets_its_files(client, finish, worker):
    source = finish(export={"tolerance": 0.01, "variants": ["fp16"]}, priority=3)
    answer = client.post(f"/v1/jobs/{source}/export", json={"variants": ["int8-static"]})
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert answer.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert (job["task"], job["spec"]["source"], job["priority"]) == ("export", source, 3)
    assert job["name"].endswith("-export")
    assert job["model"] == "mnist-cnn"
    assert job["dataset_id"] == client.get(f"/v1/jobs/{source}").json()["dataset_id"]
    assert job["spec"]["export"]["tolerance"] == 0.01
    assert [one["name"] for one in job["spec"]["export"]["variants"]] == ["fp32", "int8-static"]

    attempt = worker.claim()
    assert attempt.job_id == job["id"]
    claimed = attempt.claimed
    assert claimed["dataset"]["id"] == job["dataset_id"]
    for name, content in (("initial", CHECKPOINT), ("manifest", MANIFEST)):
        url = f"/v1/attempts/{attempt.id}/blobs/{claimed[name]['sha256']}"
        assert client.get(url, headers=attempt.headers).content == content
    assert claimed["initial"]["job_id"] == claimed["manifest"]["job_id"] == source


def test_without_other_options_it_writes_the_files_of_the_job(client, finish):
    source = finish(export={"variants": ["fp16"], "opset": 18})
    spec = client.post(f"/v1/jobs/{source}/export").json()["spec"]
    assert (spec["export"]["opset"], len(spec["export"]["variants"])) == (18, 2)


def test_a_variant_that_needs_training_is_not_repeated_and_refused_if_asked_for(client, finish):
    source = finish(export={"variants": ["fp16", "int8-qat"]})
    spec = client.post(f"/v1/jobs/{source}/export").json()["spec"]
    assert [one["name"] for one in spec["export"]["variants"]] == ["fp32", "fp16"]
    pointer, code, message = refusal(client, source, variants=["int8-qat"])
    assert (pointer, code) == ("/export/variants/1", "not_trainable")
    assert "needs training" in message


def test_a_repeated_request_is_answered_with_the_same_job(client, finish):
    source = finish()
    headers = {"Idempotency-Key": "once"}
    first, again = (client.post(f"/v1/jobs/{source}/export", headers=headers) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert again.headers["Idempotent-Replayed"] == "true"


def refusal(client, job_id, **options):
    response = client.post(f"/v1/jobs/{job_id}/export", json=options)
    assert response.status_code == 422, response.text
    (error,) = response.json()["errors"]
    return error["pointer"], error["code"], error["message"]


def test_a_job_without_its_files_is_refused(client, finish):
    source = finish(files=FILES[:1])
    pointer, code, message = refusal(client, source)
    assert (pointer, code) == ("/source", "no_checkpoint")
    assert "no longer has its checkpoint.safetensors and manifest.json" in message


def test_a_job_that_is_not_done_or_trains_nothing_is_refused(client, submit, finish):
    waiting = submit()["id"]
    assert refusal(client, waiting)[1:] == (
        "job_not_succeeded",
        f"{waiting} is queued; wait until it has ended",
    )
    assert client.post(f"/v1/jobs/{waiting}/cancel").status_code == 200
    assert "finish exports the best checkpoint of a cancelled job" in refusal(client, waiting)[2]
    benchmark = client.post("/v1/jobs", json={"task": "benchmark"}).json()["id"]
    assert refusal(client, benchmark)[1] == "task_mismatch"
    assert client.post(f"/v1/jobs/job_{22 * '0'}/export").status_code == 404


def test_an_export_is_not_exported_again(client, finish):
    source = finish()
    export = client.post(f"/v1/jobs/{source}/export").json()["id"]
    assert f"export {source} instead" in refusal(client, export)[2]


def test_wrong_options_are_refused_with_their_place(client, finish):
    pointer, _, message = refusal(client, finish(), variants=["int8-statik"])
    assert pointer.startswith("/export/variants/0")
    assert "int8-static" in message


def test_a_source_that_is_deleted_before_the_claim_leaves_no_files_to_fetch(client, finish, worker):
    source = finish()
    assert client.post(f"/v1/jobs/{source}/export").status_code == 202
    assert client.delete(f"/v1/jobs/{source}").status_code == 204
    claimed = worker.claim().claimed
    assert (claimed["initial"], claimed["manifest"]) == (None, None)
