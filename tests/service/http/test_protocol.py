"""Clients that send headers or bodies slowly, or without end."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import uvicorn

from service.http import protocol
from service.http.protocol import BoundedProtocol


async def echo(scope, receive, send):
    """An application that answers with the length of the body."""
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.fixture
def port(monkeypatch):
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(protocol, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(protocol, "LEAST_BODY_RATE", 4)
    config = uvicorn.Config(echo, port=0, log_config=None, lifespan="off", http=BoundedProtocol)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(timeout=60)
    assert not thread.is_alive()


@contextmanager
def connected(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        yield connection


def read_all(connection):
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
    return answer


def drip(connection, *, num_bytes, seconds=0.01):
    for _ in range(num_bytes):
        connection.sendall(b"a")
        time.sleep(seconds)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_headers_that_never_end_are_refused_in_time(port, sent):
    with connected(port) as connection:
        connection.sendall(sent)
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the headers did not arrive within 0.2 s" in answer


def test_headers_sent_byte_by_byte_get_no_more_time(port):
    with connected(port) as connection:
        connection.sendall(b"GET /")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            drip(connection, num_bytes=1000)


def test_a_body_that_stalls_is_refused_in_time(port):
    with connected(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"no byte of the body arrived for 0.5 s" in answer


def test_a_slow_body_that_moves_is_accepted(port):
    with connected(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n")
        drip(connection, num_bytes=6, seconds=0.12)
        assert b"\r\n6\r\n" in connection.recv(65536)


def test_a_body_that_drips_is_refused(port):
    with connected(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60\r\n\r\n")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            drip(connection, num_bytes=60, seconds=0.4)


def test_connections_of_all_addresses_together_are_bounded(port, monkeypatch):
    monkeypatch.setattr(BoundedProtocol, "most_open", 6)
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    with connected(port) as connection:
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"more than 3 open connections" in answer
    for connection in opened:
        connection.close()


def test_the_service_raises_its_limit_of_descriptors_and_keeps_some_for_itself():
    program = (
        "import resource; from service.http.protocol import BoundedProtocol, bound_connections;"
        "bound_connections();"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], BoundedProtocol.most_open)"
    )
    limited = f"ulimit -S -n 300; ulimit -H -n 600; exec {sys.executable} -c '{program}'"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["600", "344"]


def test_large_headers_are_refused_before_they_are_complete(port):
    line = b"X-Long: " + b"a" * 1_000_000
    with connected(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        try:
            for _ in range(60):
                connection.sendall(line)
        except OSError:
            return  # the service closed the connection before it had read all of it
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_many_half_sent_requests_do_not_stop_others(port):
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
    for connection in opened:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc")
    assert httpx.post(f"http://127.0.0.1:{port}/", content=b"abcd").text == "4"
    for connection in opened:
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")
        connection.close()


def test_requests_of_one_connection_are_served_one_after_another(port):
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for size in (0, 100_000, 3):
            assert client.post("/", content=b"a" * size).text == str(size)


def test_an_address_has_a_bounded_number_of_connections(port, monkeypatch):
    monkeypatch.setattr(protocol, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 20.0)
    with connected(port), connected(port), connected(port) as third:
        assert read_all(third).startswith(b"HTTP/1.1 503 ")
    with connected(port) as again:
        again.sendall(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert read_all(again).startswith(b"HTTP/1.1 200 ")
    assert sum(BoundedProtocol.num_connections.values()) <= 1
