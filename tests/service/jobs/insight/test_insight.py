import json

import pytest

from redkiln.views.evaluation import EvaluationFile

MISSING = "job_" + "0" * 22
EVALUATION = {
    "noun": "images",
    "classes": ["cat", "dog", "cow"],
    "num_samples": 10,
    "num_mistakes": 3,
    "num_listed": 3,
    "per_class": [{"name": "cat", "num": 4, "precision": 0.75, "recall": 0.75, "f1": 0.75}],
    "confused": [
        {"true": "cat", "predicted": "cat", "num": 3},
        {"true": "cat", "predicted": "dog", "num": 1},
        {"true": "cow", "predicted": "dog", "num": 2},
    ],
    "tiles": {"name": "mistakes.png", "columns": 3, "side": 8},
    "mistakes": [
        {"sample": sample, "true": true, "predicted": "dog", "confidence": confidence,
         "true_confidence": 0.01, "text": f"{true}/{sample}.png", "tile": tile}
        for tile, (sample, true, confidence) in enumerate(
            [(7, "cow", 0.99), (2, "cat", 0.9), (5, "cow", 0.5)]
        )
    ],
}  # fmt: skip


@pytest.fixture
def evaluated(submit, worker):
    """A succeeded job with these files."""

    def evaluated(**files):
        job_id = submit()["id"]
        attempt = worker.claim()
        artifacts = [
            {"kind": "file", "name": name, "media_type": "application/json",
             "sha256": attempt.upload(data), "size_bytes": len(data)}
            for name, data in files.items()
        ]  # fmt: skip
        attempt.finish("succeeded", artifacts=artifacts)
        return job_id

    return evaluated


@pytest.fixture
def job_id(evaluated):
    content = json.dumps(EVALUATION).encode()
    return evaluated(**{"evaluation.json": content, "mistakes.png": b"picture"})


def test_results_by_class_have_a_matrix_and_a_picture(client, job_id):
    told = client.get(f"/v1/jobs/{job_id}/evaluation").json()
    assert told["matrix"] == [[3, 1, 0], [0, 0, 0], [0, 2, 0]]
    assert (told["num_samples"], told["num_mistakes"]) == (10, 3)
    assert told["per_class"][0]["f1"] == 0.75
    assert client.get(told["tiles"]["url"]).content == b"picture"
    assert "mistakes" not in told


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [7, 2, 5]),
        ("true=cow", [7, 5]),
        ("true=cow&predicted=dog", [7, 5]),
        ("predicted=cow", []),
        ("after=7", [2, 5]),
        ("after=1", []),
    ],
)
def test_mistakes_are_listed_by_cell(client, job_id, query, expected):
    page = client.get(f"/v1/jobs/{job_id}/mistakes?{query}").json()
    assert [mistake["sample"] for mistake in page["data"]] == expected


def test_mistakes_are_paged(client, job_id):
    first = client.get(f"/v1/jobs/{job_id}/mistakes?limit=2").json()
    assert first["has_more"]
    rest = client.get(f"/v1/jobs/{job_id}/mistakes?after={first['last_id']}").json()
    assert [mistake["text"] for mistake in rest["data"]] == ["cow/5.png"]
    assert not rest["has_more"]


def test_very_many_classes_have_no_whole_matrix(client, evaluated):
    content = {**EVALUATION, "classes": ["cat", "dog", "cow", *map(str, range(300))]}
    job_id = evaluated(**{"evaluation.json": json.dumps(content).encode()})
    told = client.get(f"/v1/jobs/{job_id}/evaluation").json()
    assert (told["matrix"], told["tiles"]) == (None, None)
    assert len(told["confused"]) == 3


@pytest.mark.parametrize("what", ["evaluation", "mistakes"])
@pytest.mark.parametrize("content", [None, b"[]"])
def test_a_job_without_a_readable_evaluation_says_so(client, evaluated, what, content):
    job_id = evaluated(**({} if content is None else {"evaluation.json": content}))
    response = client.get(f"/v1/jobs/{job_id}/{what}")
    assert (response.status_code, response.json()["code"]) == (404, "no_evaluation")
    assert client.get(f"/v1/jobs/{MISSING}/{what}").json()["code"] == "not_found"


def test_differences_name_what_the_user_and_the_worker_chose(client, submit, worker):
    job_id = submit(training={"epochs": 3}, priority=4)["id"]

    def differences():
        told = client.get(f"/v1/jobs/{job_id}/differences").json()
        return {item["pointer"]: (item["value"], item["by"]) for item in told["differences"]}

    assert differences() == {"/training/epochs": (3, "user"), "/priority": (4, "user")}
    attempt = worker.claim()
    spec = attempt.claimed["spec"]
    spec["training"]["batch_size"] = 64
    attempt.report(("resolved", {"spec": spec, "environment": {}}))
    assert differences()["/training/batch_size"] == (64, "worker")
    assert differences()["/training/epochs"] == (3, "user")


def test_a_spec_of_defaults_has_no_differences(client, submit):
    for spec in ({}, {"dataset": "builtin:iris", "name": "a", "metadata": {"a": "b"}}):
        job_id = submit(**spec)["id"]
        assert client.get(f"/v1/jobs/{job_id}/differences").json()["differences"] == []


def test_an_evaluation_of_a_newer_release_is_read():
    EvaluationFile.model_validate({**EVALUATION, "something": "new"})
