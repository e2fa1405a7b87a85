import httpx
import pytest

from redkiln.client.connection import Connection, Failure, RetryPolicy, retry_delay
from redkiln.errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    NotAuthorized,
    NotFound,
    Rejected,
    Unavailable,
)
from redkiln.settings import ClientSettings

POLICY = RetryPolicy(attempts=3, base_seconds=1, longest_seconds=1.5)


@pytest.mark.parametrize(
    ("failure", "attempt", "repeatable", "expected"),
    [
        (Failure(), 1, True, 1.0),
        (Failure(), 2, True, 1.5),
        (Failure(), 3, True, None),
        (Failure(), 1, False, None),
        (Failure(was_sent=False), 1, False, 1.0),
        (Failure(503), 1, True, 1.0),
        (Failure(503, 7), 1, True, 7),
        (Failure(503, 700), 1, True, None),
        (Failure(503), 1, False, None),
        (Failure(429, 2), 1, True, 2),
        (Failure(429, code="storage_quota"), 1, True, None),
        (Failure(500), 1, True, None),
        (Failure(507), 1, True, None),
        (Failure(404), 1, True, None),
        (Failure(409), 1, True, None),
        (Failure(409, 1), 1, True, 1),
    ],
)
def test_which_requests_are_retried_and_when(failure, attempt, repeatable, expected):
    delay = retry_delay(failure, attempt=attempt, repeatable=repeatable, policy=POLICY)
    assert delay == expected


def connect(handler, url="http://127.0.0.1:1"):
    slept = []
    connection = Connection(
        ClientSettings(url, "rk_1"),
        policy=POLICY,
        transport=httpx.MockTransport(handler),
        sleep=slept.append,
    )
    return connection, slept


def test_a_busy_service_is_retried_after_the_time_it_asked_for():
    answers = [httpx.Response(503, headers={"Retry-After": "3"}), httpx.Response(200, json={})]
    connection, slept = connect(lambda request: answers.pop(0))
    with connection:
        assert connection.request("GET", "/v1/jobs").status_code == 200
    assert len(slept) == 1
    assert 2 < slept[0] <= 3


def test_a_post_that_may_have_arrived_is_not_sent_twice():
    asked = []

    def break_off(request):
        asked.append(request)
        raise httpx.ReadError("gone")

    connection, _ = connect(break_off)
    with connection, pytest.raises(ConnectionFailed):
        connection.request("POST", "/v1/keys", json={})
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Rejected),
        (401, NotAuthorized),
        (403, NotAuthorized),
        (404, NotFound),
        (409, Conflict),
        (410, NotFound),
        (413, Rejected),
        (422, Rejected),
        (500, Unavailable),
        (507, Unavailable),
    ],
)
def test_each_status_has_its_error(status, kind):
    body = {"title": "T", "detail": "D", "code": "c", "request_id": "req_1"}
    connection, _ = connect(lambda request: httpx.Response(status, json=body))
    with connection, pytest.raises(ApiError) as caught:
        connection.request("GET", "/")
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.code) == (status, "c")
    assert (caught.value.title, caught.value.detail) == ("T", "D")
    assert caught.value.request_id == "req_1"


def test_an_error_page_of_a_proxy_becomes_a_readable_error():
    connection, _ = connect(lambda request: httpx.Response(403, html="<h1>No</h1>"))
    with connection, pytest.raises(NotAuthorized, match="<h1>No</h1>"):
        connection.request("GET", "/")


def test_an_unreachable_service_error_names_the_address_and_what_to_do():
    with (
        Connection(ClientSettings("http://127.0.0.1:9"), sleep=lambda _: None) as connection,
        pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:9.*make up"),
    ):
        connection.request("GET", "/healthz")


def test_the_key_is_sent_as_a_bearer_token():
    seen = []

    def answer(request):
        seen.append(request.headers["authorization"])
        return httpx.Response(200)

    connection, _ = connect(answer)
    with connection:
        connection.request("GET", "/")
    assert seen == ["Bearer rk_1"]
