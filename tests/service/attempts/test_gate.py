"""The token of an attempt is checked before the body of its request is read."""

import socket

import httpx
import pytest


def ask(client, path, *headers):
    """Send the head of a request whose body never comes, and return the answer."""
    url = httpx.URL(str(client.base_url))
    head = [f"POST {path} HTTP/1.1", f"Host: {url.netloc.decode()}", *headers, "", ""]
    with socket.create_connection((url.host, url.port), timeout=10) as connection:
        connection.sendall("\r\n".join(head).encode())
        return connection.recv(65536).decode()


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
    length = ("Content-Type: application/json", "Content-Length: 5000000")
    answer = ask(client, f"/v1/attempts/att_{'0' * 22}/{what}", *length, *headers)
    assert answer.startswith("HTTP/1.1 401 ")
    assert f'"code": "{code}"' in answer
