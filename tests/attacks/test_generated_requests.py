"""Requests generated from the OpenAPI document, which the service answers as the document says.

CI sends a few to each operation; `make fuzz` sends more (`REDKILN_FUZZ_REQUESTS`).
"""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as profile
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.settings import Settings

NUM_REQUESTS = int(os.environ.get("REDKILN_FUZZ_REQUESTS", "1"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
WITHOUT_WORKERS = {"/readyz"}
"""Answers 503 while no worker is there."""


@schemathesis.serializer(
    "application/octet-stream", "application/x-tar", "application/zip", "text/csv",
    "text/tab-separated-values", "application/x-ndjson", "application/vnd.apache.parquet",
    "image/*", "text/plain",
)  # fmt: skip
def as_bytes(_context, value):
    return value if isinstance(value, bytes) else repr(value).encode()


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
    schema = schemathesis.openapi.from_url(f"{client.base_url}/openapi.json")
    faults, num_sent = [], 0
    headers = {"Accept": "application/json"}
    if keys[role] is not None:
        headers["Authorization"] = f"Bearer {keys[role]}"
    for number, found in enumerate(schema.get_all_operations()):
        operation = found.ok()
        if operation.path in WITHOUT_WORKERS:
            continue
        is_wrong = number % 2 and (operation.body or operation.query)
        mode = GenerationMode.NEGATIVE if is_wrong else GenerationMode.POSITIVE

        @seed(0)
        @profile(
            max_examples=NUM_REQUESTS,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case):
            nonlocal num_sent
            num_sent += 1
            answer = case.call(headers=headers, timeout=20)
            case.validate_response(answer, checks=CHECKS)

        try:
            send()
        except Exception as error:  # noqa: BLE001
            faults.append(f"{operation.method.upper()} {operation.path}: {error}"[:600])
    assert num_sent >= 90
    assert not faults, "\n".join(faults)
