"""The OpenAPI document says which errors and keys every operation has."""

import pytest

from service.app import create_app
from service.settings import Settings


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    return create_app(Settings(state_dir=tmp_path_factory.mktemp("api"))).openapi()


@pytest.fixture(scope="module")
def operations(document):
    return {
        (method, path): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }


def test_every_operation_describes_its_errors_as_problems(document, operations):
    assert len(operations) > 90
    for operation in operations.values():
        responses = operation["responses"]
        assert {"400", "401", "403", "422", "429", "503", "4XX", "5XX"} <= responses.keys()
        for status, response in responses.items():
            if status[0] in "45":
                name = response.get("$ref", "").removeprefix("#/components/responses/")
                described = document["components"]["responses"][name] if name else response
                assert list(described["content"]) == ["application/problem+json"]
                assert described["description"]


@pytest.mark.parametrize(
    ("method", "path", "named", "absent"),
    [
        ("get", "/v1/jobs", set(), {"404", "409", "410", "413", "507"}),
        ("get", "/v1/jobs/{job_id}", {"404", "410"}, {"409", "413", "507"}),
        ("delete", "/v1/jobs/{job_id}", {"404", "409", "507"}, {"413"}),
        ("put", "/v1/attempts/{attempt_id}/preview", {"404", "409", "413", "415", "507"}, set()),
        ("post", "/v1/jobs", {"409", "413", "415", "507"}, {"404", "410"}),
    ],
)
def test_an_operation_names_the_statuses_that_follow_from_its_form(
    operations, method, path, named, absent
):
    statuses = operations[method, path]["responses"].keys()
    assert named <= statuses
    assert not absent & statuses


@pytest.mark.parametrize(
    "path",
    [
        "/v1/artifacts/{artifact_id}/content",
        "/v1/attempts/{attempt_id}/blobs/{sha256}",
        "/v1/attempts/{attempt_id}/bundle",
        "/v1/attempts/{attempt_id}/dataset",
        "/v1/attempts/{attempt_id}/dataset/index",
        "/v1/models/{name}/versions/{version}/content",
        "/v1/models/{name}@{alias}/content",
    ],
)
def test_what_sends_a_file_names_the_answers_to_conditions_and_ranges(operations, path):
    assert {"206", "304", "412", "416"} <= operations["get", path]["responses"].keys()


def test_operations_of_workers_and_attempts_name_their_keys(operations):
    found = {
        place: [name for scheme in operation.get("security", ()) for name in scheme]
        for place, operation in operations.items()
    }
    assert found["post", "/v1/workers/claim"] == ["worker"]
    assert found["get", "/v1/jobs"] == ["key"]
    attempts = [names for (_, path), names in found.items() if path.startswith("/v1/attempts/")]
    assert len(attempts) >= 11
    assert all(names == ["attempt"] for names in attempts)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/datasets", "GET, POST"),
        ("PUT", "/v1/keys", "GET, POST"),
        ("POST", "/v1/storage", "GET"),
        ("PATCH", "/v1/attempts/att_0000000000000000000000/report", None),
    ],
)
def test_a_method_that_is_not_allowed_is_answered_with_all_that_are(client, method, path, allowed):
    answer = client.request(method, path)
    if allowed is None:
        assert answer.status_code == 401  # strangers learn nothing about attempts
        return
    assert answer.status_code == 405
    assert answer.headers["Allow"] == allowed
    assert f"use {allowed}" in answer.json()["detail"]
