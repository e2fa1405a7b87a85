"""Requests generated from the OpenAPI document, which the service answers as the document says.

CI sends a few to each operation; `make fuzz` sends more (`REDKILN_FUZZ_REQUESTS`).
"""

import pytest


@pytest.fixture
def settings(key_settings):
    return key_settings


@pytest.mark.parametrize("role", ["stranger", "user", "worker", "admin"])
def test_generated_requests_get_the_answers_of_the_document(client, role_keys, role):
    from tests.attacks.generated_requests import send_requests

    headers = {"Accept": "application/json"}
    if role_keys[role] is not None:
        headers["Authorization"] = f"Bearer {role_keys[role]}"
    num_sent, faults = send_requests(client.base_url, headers=headers)
    assert num_sent >= 90
    assert not faults, "\n".join(faults)
