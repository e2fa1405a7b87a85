"""Sequences of requests from the OpenAPI document, in which later ones use earlier answers.

CI sends two with each role; `make fuzz` sends more (`REDKILN_FUZZ_REQUESTS`).
"""

import pytest

from tests.service.conftest import Worker


@pytest.fixture
def settings(key_settings):
    return key_settings


@pytest.mark.parametrize("role", ["stranger", "user", "worker", "admin"])
def test_sequences_of_requests_get_the_answers_of_the_document(client, role_keys, role):
    from tests.attacks.generated_requests import send_sequences

    admin = {"Authorization": f"Bearer {role_keys['admin']}"}
    known = make_things(client, admin, role_keys["worker"])
    if role == "stranger":
        known["attempt_id"] = {found: {} for found in known["attempt_id"]}
    headers = {"Accept": "application/json"}
    if role_keys[role] is not None:
        headers["Authorization"] = f"Bearer {role_keys[role]}"
    own = role_keys[role] and f"key_{role_keys[role].split('_')[1]}"
    statuses, faults = send_sequences(client.base_url, headers=headers, known=known, own_key_id=own)
    assert not faults, "\n".join(faults)
    assert len(statuses) >= 10
    if role in ("user", "admin"):
        assert any(status < 300 for status in statuses)


def make_things(client, headers, worker_key):
    """Make what the requests can name: running and waiting jobs, keys, an upload and a data set."""
    spec = {"dataset": "builtin:digits"}
    jobs = [
        client.post("/v1/jobs", json=spec, headers=headers).raise_for_status().json()["id"]
        for _ in range(4)
    ]
    worker = Worker(client, worker_key)
    assert worker.hello().status_code == 200
    attempt = worker.claim()
    key = client.post("/v1/keys", json={"name": "more"}, headers=headers).raise_for_status()
    dataset = client.get("/v1/datasets", headers=headers).raise_for_status().json()["data"][0]
    return {
        "job_id": jobs,
        "attempt_id": {attempt.id: attempt.headers},
        "key_id": [key.json()["id"]],
        "dataset_id": [dataset["id"]],
        "worker_id": [worker.id],
        "task": ["image-classification"],
    }
