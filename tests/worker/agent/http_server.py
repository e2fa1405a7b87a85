"""A real HTTP server in a thread, on which fake services run."""

import threading
from http.server import ThreadingHTTPServer


class HttpServer:
    """Answers at `url` until it is closed."""

    def serve(self, handler):
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
