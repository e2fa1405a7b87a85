"""A script's output on its way to the job's log: whole, in order, and never without end."""

import os
import threading
from collections import deque
from collections.abc import Callable

CHUNK_BYTES = 1 << 16
MAX_LINE_BYTES = 8192
"""Of a line that is looked at for metrics; a longer one is cut."""
TAIL_BYTES = 16_384
MAX_LOG_BYTES = 256 * 1024**2
"""What is kept of it on the worker's disk; the service keeps less of it."""
NOTE = b"\n[redkiln: the output goes on; no more of it is kept]\n"

OnLine = Callable[[str], None]


class OutputPump:
    """Reads a pipe to its end in a thread, and writes what comes to the log.

    Attributes:
        num_bytes: read so far.
    """

    def __init__(
        self,
        source: int,
        target: int,
        *,
        on_line: OnLine | None = None,
        max_bytes: int = MAX_LOG_BYTES,
    ) -> None:
        self.num_bytes = 0
        self._source = source
        self._target = target
        self._on_line = on_line
        self._max_bytes = max_bytes
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._partial = b""
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)
        self._thread.start()

    def finish(self, *, timeout_seconds: float) -> None:
        """Wait for the end of the pipe: everyone who holds its other end has closed it."""
        self._thread.join(timeout_seconds)

    def tail(self) -> str:
        """The last of it, whatever bytes it was made of."""
        return b"".join(self._tail)[-TAIL_BYTES:].decode(errors="replace")

    def _run(self) -> None:
        with os.fdopen(self._source, "rb", buffering=0) as pipe:
            while chunk := pipe.read(CHUNK_BYTES):
                self._keep(chunk)
                if self._on_line is not None:
                    self._split(chunk, self._on_line)
        if self._on_line is not None and self._partial:
            self._on_line(self._partial.decode(errors="replace"))

    def _keep(self, chunk: bytes) -> None:
        room = self._max_bytes - self.num_bytes
        self.num_bytes += len(chunk)
        if room > 0:
            self._write(chunk[:room])
            if room < len(chunk):
                self._write(NOTE)
        self._tail.append(chunk)
        self._tail_bytes += len(chunk)
        while self._tail_bytes - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft())

    def _write(self, data: bytes) -> None:
        try:
            _write_all(self._target, data)
        except OSError:
            self._max_bytes = 0  # a full disk: the script goes on, unheard

    def _split(self, chunk: bytes, on_line: OnLine) -> None:
        # A progress bar ends its lines with a carriage return.
        *lines, self._partial = (self._partial + chunk).replace(b"\r", b"\n").split(b"\n")
        self._partial = self._partial[-MAX_LINE_BYTES:]
        for line in lines:
            on_line(line[:MAX_LINE_BYTES].decode(errors="replace"))


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
