import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from docker.health import WORKER_SILENCE_SECONDS, find_problem


@pytest.fixture(params=[200, 503])
def answering(request):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(request.param if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, request.param
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_service_is_healthy_if_it_answers(answering):
    port, status = answering
    problem = find_problem("service", {"REDKILN_BIND": f"0.0.0.0:{port}"}, now=0.0)
    assert (problem is None) == (status == 200)


def test_a_service_that_does_not_answer_is_not_healthy():
    problem = find_problem("service", {"REDKILN_BIND": "0.0.0.0:1"}, now=0.0)
    assert "does not answer" in problem


@pytest.mark.parametrize(
    ("age", "healthy"),
    [(0, True), (WORKER_SILENCE_SECONDS, True), (WORKER_SILENCE_SECONDS + 1, False)],
)
def test_a_silent_agent_is_not_healthy(tmp_path, age, healthy):
    alive = tmp_path / "alive"
    alive.touch()
    os.utime(alive, (1000.0, 1000.0))
    problem = find_problem("worker", {"REDKILN_WORKER_DIR": str(tmp_path)}, now=1000.0 + age)
    assert (problem is None) == healthy


def test_an_agent_that_never_started_is_not_healthy(tmp_path):
    assert "not started" in find_problem("worker", {"REDKILN_WORKER_DIR": str(tmp_path)}, now=0.0)
