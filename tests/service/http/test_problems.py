import asyncio

import pytest
from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from structlog.testing import capture_logs

from service import errors
from service.changes import Changes
from service.http.problems import RequestMiddleware, install_problem_handlers


@pytest.fixture
def app(tmp_path):
    app = FastAPI()
    app.state.changes = Changes()
    install_problem_handlers(app)
    app.add_middleware(RequestMiddleware)

    @app.get("/bug")
    def bug():
        raise RuntimeError("secret details")

    @app.get("/gap")
    def gap():
        raise errors.SequenceGap(expected_seq=7)

    @app.get("/later")
    def later():
        raise errors.DatabaseBusy("locked")

    @app.post("/spec")
    def spec():
        raise errors.Unprocessable("/lr: unknown field", code="invalid_spec")

    @app.get("/number")
    def number(n: int):
        return n

    return app


def test_an_internal_error_is_a_500_without_details(client):
    response = client.get("/bug")
    assert response.status_code == 500
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["request_id"] == response.headers["X-Request-Id"]
    assert "secret" not in response.text


def test_a_refused_spec_is_headed_in_words_for_people(client):
    assert client.post("/spec").json()["title"] == "The spec is wrong"


def test_an_errors_own_facts_are_members_of_the_problem(client):
    problem = client.get("/gap").json()
    assert (problem["status"], problem["code"], problem["expected_seq"]) == (
        409,
        "sequence_gap",
        7,
    )


def test_a_temporary_error_says_when_to_retry(client):
    response = client.get("/later")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/number?n=x", 422)])
def test_errors_of_the_framework_are_problems_too(client, path, status):
    response = client.get(path)
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/problem+json"
    assert response.json()["code"] in ("not_found", "invalid_request")


@pytest.mark.parametrize("path", ["/number%00", "/number?n=%00"])
def test_nul_characters_are_refused(client, path):
    response = client.get(path)
    assert (response.status_code, response.json()["code"]) == (400, "nul_character")


def test_a_wrong_parameter_is_named(client):
    (error,) = client.get("/number?n=x").json()["errors"]
    assert error["parameter"] == "n"


@pytest.mark.parametrize(
    ("sent", "kept"), [("trace-1", True), ("a b", False), ("x" * 65, False), ("", False)]
)
def test_a_request_keeps_its_own_id_if_it_is_valid(client, sent, kept):
    answered = client.get("/number?n=1", headers={"X-Request-Id": sent}).headers["X-Request-Id"]
    assert (answered == sent) is kept


def test_every_error_says_its_status_and_code():
    tree = [errors.ServiceError]
    for error in tree:
        tree += error.__subclasses__()
    known = [error for error in tree if error is not errors.ServiceError]
    assert len({(error.status, error.default_code) for error in known}) == len(known)
    assert all(error.__name__ in errors.__doc__ for error in known)


@pytest.mark.parametrize(
    ("error", "told", "num_sent"),
    [
        (ClientDisconnect(), ("client_left", "info"), 0),
        (RuntimeError("a bug"), ("unexpected_error", "error"), 2),
    ],
)
def test_a_client_that_disconnects_is_not_an_internal_error(error, told, num_sent):
    sent = []

    async def fail(_scope, _receive, _send):
        raise error

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": "/v1/datasets", "query_string": b"", "headers": []}
    with capture_logs() as logs:
        asyncio.run(RequestMiddleware(fail)(scope, None, send))
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [told]
    assert len(sent) == num_sent


def test_an_unknown_path_or_method_is_answered_with_what_exists(client):
    assert client.get("/v1/job").json()["detail"].startswith("there is nothing at /v1/job; /docs")
    answer = client.delete("/bug")
    assert (answer.status_code, answer.json()["detail"]) == (
        405,
        "/bug does not accept DELETE; use GET (see /docs)",
    )
