"""A proxy between a worker and its service, which breaks requests as networks do.

It passes whole HTTP requests on, each of which a rule may lose, delay, double or damage.
"""

import http.client
import random
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Proxy:
    """Listens on a port of this machine, and passes requests on to a service.

    Attributes:
        rule: Called with each exchange; it breaks it, or calls `exchange.pass_on()`.
        hits: Paths of the requests that a rule has broken.
    """

    def __init__(self):
        self.target = ""
        self.hits = []
        self.rule = pass_on
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def breaking(self, rule):
        """Apply a rule; it must break at least one request in the block. Yields the hits."""
        self.hits = hits = []
        self.rule = rule
        try:
            yield hits
        finally:
            self.rule = pass_on
        assert hits, "the rule broke no request"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Exchange:
    """One request, and what may happen to it."""

    def __init__(self, proxy, handler, body):
        self.path = handler.path
        self.name = f"{handler.command} {handler.path.split('?')[0]}"
        self._proxy = proxy
        self._handler = handler
        self.body = body

    def hit(self):
        self._proxy.hits.append(self.name)

    def forward(self, body=None):
        """Send the request to the service; its status, headers and body."""
        place = urlsplit(self._proxy.target)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
        headers = {k: v for k, v in self._handler.headers.items() if k.lower() not in HOP_HEADERS}
        content = self.body if body is None else body
        try:
            connection.request(self._handler.command, self.path, content or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def answer(self, status, headers, body):
        handler = self._handler
        handler.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_HEADERS:
                handler.send_header(name, value)
        is_empty = handler.command == "HEAD" or status in (204, 304)
        if not is_empty:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if not is_empty:
            handler.wfile.write(body)

    def pass_on(self):
        try:
            answer = self.forward()
        except OSError:
            self.reset()
        else:
            self.answer(*answer)

    def reset(self):
        """End the client's connection with a TCP reset."""
        reset(self._handler.connection)
        self._handler.close_connection = True

    def send_part(self, num_bytes):
        """Send the service only the beginning of the body, and then reset its connection."""
        place = urlsplit(self._proxy.target)
        lines = [f"{self._handler.command} {self.path} HTTP/1.1", "Host: service"]
        lines += [f"{k}: {v}" for k, v in self._handler.headers.items() if k.lower() != "host"]
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + self.body[:num_bytes])
            time.sleep(0.2)  # the service reads these bytes before it notices the reset
            reset(connection)


def reset(connection):
    """Make the close of a connection, which follows, a TCP reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def pass_on(exchange):
    exchange.pass_on()


def only(matches, act, *, times=10**9):
    """Apply a rule to requests whose name has this text, at most so many times."""
    lock, left = threading.Lock(), [times]

    def rule(exchange):
        with lock:
            is_chosen = matches in exchange.name and left[0] > 0
            left[0] -= is_chosen
        if not is_chosen:
            exchange.pass_on()
            return
        exchange.hit()
        act(exchange)

    return rule


def lose_answer(exchange):
    """The service gets the request; its answer never arrives."""
    with suppress(OSError):
        exchange.forward()
    exchange.reset()


def send_twice(exchange):
    """The service gets the request twice; the client sees the second answer."""
    exchange.forward()
    exchange.pass_on()


class SendLate:
    """A request whose connection breaks reaches the service after the next one of its kind."""

    def __init__(self, matches):
        self._matches = matches
        self._held = None
        self.late_statuses = []
        self._lock = threading.Lock()

    def __call__(self, exchange):
        if self._matches not in exchange.name:
            exchange.pass_on()
            return
        with self._lock:
            held, self._held = self._held, exchange if self._held is None else None
        if held is None:
            exchange.hit()
            exchange.reset()
            return
        exchange.pass_on()
        self.late_statuses.append(held.forward()[0])


def lossy(*, share, seconds, seed):
    """Each request is late, and this share of them, or of their answers, is lost."""
    random_numbers = random.Random(seed)

    def rule(exchange):
        time.sleep(seconds * random_numbers.uniform(0.9, 1.1))
        chance = random_numbers.random()
        if chance >= share:
            exchange.pass_on()
            return
        exchange.hit()
        if chance < share / 2:
            exchange.reset()
        else:
            lose_answer(exchange)

    return rule


class Swallow:
    """The network swallows everything, until `heal`."""

    def __init__(self):
        self._healed = threading.Event()

    def __call__(self, exchange):
        exchange.hit()
        self._healed.wait(120)
        exchange.reset()

    def heal(self):
        self._healed.set()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: Proxy

    def handle_error(self, request, client_address):
        """Clients that leave are what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_any(self):
        exchange = Exchange(self.server.proxy, self, self._read_body())
        self.server.proxy.rule(exchange)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = handle_any  # noqa: N815

    def _read_body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_):
        """Say nothing."""
