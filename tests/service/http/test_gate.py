"""Who sends a request is checked before its body is read."""

import http.client
import socket

import httpx
import pytest

from service.settings import Settings


def ask(client, path, *headers):
    """Send the head of a request whose body never comes, and return the answer."""
    url = httpx.URL(str(client.base_url))
    head = [f"POST {path} HTTP/1.1", f"Host: {url.netloc.decode()}", *headers, "", ""]
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        connection.sendall("\r\n".join(head).encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        return f"HTTP/1.1 {response.status} {response.headers}{response.read().decode()}"


LENGTH = ("Content-Type: application/json", "Content-Length: 500000")


@pytest.mark.parametrize("what", ["report", "finish", "checkpoints", "artifacts"])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ((), "missing_key"),
        (("Authorization: Bearer rt_1_" + "0" * 64,), "bad_attempt_token"),
        (("Authorization: Bearer nonsense",), "bad_attempt_token"),
    ],
)
def test_a_request_without_the_token_is_refused_before_its_body(client, what, headers, code):
    answer = ask(client, f"/v1/attempts/att_{'0' * 22}/{what}", *LENGTH, *headers)
    assert answer.startswith("HTTP/1.1 401 ")
    assert f'"code": "{code}"' in answer


@pytest.mark.parametrize("attempt_id", ["x", "att_1", "att_%00", "%0a", "", "a/b"])
def test_a_malformed_id_of_an_attempt_opens_no_way_around_the_token(client, attempt_id):
    answer = ask(client, f"/v1/attempts/{attempt_id}/report", *LENGTH)
    assert answer.split()[1] in ("400", "401")


@pytest.mark.parametrize("path", ["hello", "status", "claim"])
def test_a_worker_shows_its_key_before_its_body_even_to_a_local_service(client, path):
    assert ask(client, f"/v1/workers/{path}", *LENGTH).startswith("HTTP/1.1 401 ")


class TestWithKeys:
    """A service that asks users for a key."""

    @pytest.fixture
    def settings(self, state_dir):
        return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, auth="keys")

    @pytest.mark.parametrize("path", ["/v1/jobs", "/v1/keys", "/v1/nothing", "/v1/datasets"])
    @pytest.mark.parametrize(
        ("headers", "code"),
        [
            ((), "missing_key"),
            (("Authorization: Bearer rk_x_y",), "bad_key"),
            (("Cookie: redkiln_session=x",), "bad_csrf"),
        ],
    )
    def test_a_stranger_is_refused_before_the_body(self, client, path, headers, code):
        answer = ask(client, path, *LENGTH, *headers)
        assert answer.split()[1] in ("401", "403")
        assert f'"code": "{code}"' in answer

    def test_a_stranger_who_logs_in_may_send_a_key_and_no_more(self, client):
        length = ("Content-Type: application/json", "Content-Length: 5000")
        assert ask(client, "/v1/session", *length).startswith("HTTP/1.1 413 ")
        answer = client.post("/v1/session", json={"key": "nonsense"})
        assert (answer.status_code, answer.json()["code"]) == (401, "bad_key")
