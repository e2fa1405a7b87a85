"""Requests generated from the OpenAPI document, which the service answers as the document says.

CI sends a few to each operation; `make fuzz` sends more (`REDKILN_FUZZ_REQUESTS`).
"""

import pytest

from service.settings import Settings


@pytest.fixture
def settings(state_dir):
    return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, auth="keys")


@pytest.fixture
def keys(client, settings):
    admin = (settings.keys_dir / "admin.key").read_text().strip()
    headers = {"Authorization": f"Bearer {admin}"}
    user = client.post("/v1/keys", json={"name": "fuzz"}, headers=headers).json()["secret"]
    worker = (settings.keys_dir / "worker.key").read_text().strip()
    return {"stranger": None, "user": user, "worker": worker, "admin": admin}


@pytest.mark.parametrize("role", ["stranger", "user", "worker", "admin"])
def test_generated_requests_get_the_answers_of_the_document(client, keys, role):
    from tests.attacks.generated_requests import send_requests

    headers = {"Accept": "application/json"}
    if keys[role] is not None:
        headers["Authorization"] = f"Bearer {keys[role]}"
    num_sent, faults = send_requests(client.base_url, headers=headers)
    assert num_sent >= 90
    assert not faults, "\n".join(faults)
