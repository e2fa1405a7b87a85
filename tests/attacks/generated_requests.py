"""Requests that schemathesis generates from an OpenAPI document, and answers that it compares.

In a file apart from its test, because importing schemathesis takes a second of CPU time, which each
process of tests would spend when it collects the test.
"""

import os
from contextlib import suppress

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as profile
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

NUM_REQUESTS = int(os.environ.get("REDKILN_FUZZ_REQUESTS", "1"))
NUM_STEPS = 20


def names_its_status(_context, response, case):
    """Require that an operation names each status that it answers with, not only its range."""
    named = case.operation.definition.raw["responses"]
    assert str(response.status_code) in named, f"{response.status_code} is not in the document"


CHECKS = [
    not_a_server_error,
    status_code_conformance,
    names_its_status,
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


def send_sequences(url, *, headers, known, own_key_id=None):
    """Send sequences of requests, in which answers decide what later requests name.

    Args:
        url: Address of the service.
        headers: Headers of all requests.
        known: Things that exist: the name of a path's parameter -> values, of `attempt_id` with the
            headers that its requests need. What the answers create is added.
        own_key_id: Key of these requests, which none of them may revoke.

    Returns:
        The statuses of all answers, and what is wrong with the answers, if nothing was raised.
    """
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", timeout=PATIENCE_SECONDS)
    schema = schema.exclude(path=list(WITHOUT_WORKERS))
    statuses, faults = [], []

    class Sequences(schema.as_state_machine()):
        num_calls = 0

        def before_call(self, case):
            """Name what exists, and use the given key, in three of four requests."""
            Sequences.num_calls += 1
            if Sequences.num_calls % 4:
                case.headers.pop("authorization", None)
            for name in case.path_parameters or {}:
                values = list(known.get(name, ()))
                if values and (Sequences.num_calls % 4 or case.path_parameters[name] == own_key_id):
                    case.path_parameters[name] = values[Sequences.num_calls // 4 % len(values)]

        def get_call_kwargs(self, case):
            attempt_id = (case.path_parameters or {}).get("attempt_id")
            more = known["attempt_id"].get(attempt_id, {})
            return {"headers": {**headers, **more}, "timeout": PATIENCE_SECONDS}

        def after_call(self, response, case):
            statuses.append(response.status_code)
            if case.method == "POST" and response.status_code in (200, 201, 202):
                remember(known, case.path, response)

        def validate_response(self, response, case, **_):
            try:
                case.validate_response(response, checks=CHECKS)
            except BaseException as error:
                faults.append(f"{case.method} {case.path}: {error!r}"[:2000])
                raise

    for _ in range(NUM_REQUESTS):
        # What exists changes from sequence to sequence, and so does what can be drawn.
        with suppress(FlakyStrategyDefinition):
            Sequences.run(
                settings=profile(
                    max_examples=2,  # the first one is always the simplest
                    stateful_step_count=NUM_STEPS,
                    database=None,
                    deadline=None,
                    derandomize=NUM_REQUESTS == 1,
                    phases=[Phase.generate],
                    suppress_health_check=list(HealthCheck),
                )
            )
        if faults:
            break
    return statuses, faults


CREATED = {
    "/v1/jobs": ("job_id", "id"),
    "/v1/datasets": ("dataset_id", "id"),
    "/v1/uploads": ("upload_id", "id"),
    "/v1/keys": ("key_id", "id"),
    "/v1/models": ("name", "name"),
}
"""Parameter of paths, and field of the answer, for each path that creates something."""


def remember(known, path, response):
    if path in CREATED:
        name, field = CREATED[path]
        known.setdefault(name, []).append(response.json()[field])
