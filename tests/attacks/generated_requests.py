"""Requests that schemathesis generates from an OpenAPI document, and answers that it compares.

In a file apart from its test, because importing schemathesis takes a second of CPU time, which each
process of tests would spend when it collects the test.
"""

import os

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

NUM_REQUESTS = int(os.environ.get("REDKILN_FUZZ_REQUESTS", "1"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
PATIENCE_SECONDS = 60
WITHOUT_WORKERS = {"/readyz"}
"""Answers 503 while no worker is there."""


@schemathesis.serializer(
    "application/octet-stream", "application/x-tar", "application/zip", "text/csv",
    "text/tab-separated-values", "application/x-ndjson", "application/vnd.apache.parquet",
    "image/*", "text/plain",
)  # fmt: skip
def as_bytes(_context, value):
    return value if isinstance(value, bytes) else repr(value).encode()


def send_requests(url, *, headers):
    """Send some requests to each operation of a service.

    Returns:
        The number of requests, and what is wrong with the answers.
    """
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", timeout=PATIENCE_SECONDS)
    faults, num_sent = [], 0
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
            answer = case.call(headers=headers, timeout=PATIENCE_SECONDS)
            case.validate_response(answer, checks=CHECKS)

        try:
            send()
        except Exception as error:  # noqa: BLE001
            faults.append(f"{operation.method.upper()} {operation.path}: {error}"[:600])
    return num_sent, faults
