import http.server
import socket
import threading

import pytest

from native.reach import is_reachable


@pytest.fixture
def server():
    """A server that knows no path at all."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/whl/cpu"
        server.shutdown()
        thread.join()


@pytest.fixture
def silent_port():
    """A port that is bound, on which nobody listens: it refuses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture
def mute_port():
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_any_answer_counts(server):
    assert is_reachable(server)


@pytest.mark.parametrize("index", ["file:///nowhere/wheels", "./wheels"])
def test_a_folder_is_left_to_pip(index):
    assert is_reachable(index)


def test_a_refused_connection_is_not_an_answer(silent_port):
    assert not is_reachable(f"http://127.0.0.1:{silent_port}/")


def test_an_unknown_host_is_not_an_answer():
    assert not is_reachable("http://index.invalid/whl")


def test_a_silent_server_times_out(mute_port):
    assert not is_reachable(f"http://127.0.0.1:{mute_port}/", timeout_seconds=0.2)
