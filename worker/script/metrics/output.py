"""Copies a script's output to the job's log: complete, in order, and up to a size limit."""

import os
import threading
from collections import deque
from collections.abc import Callable

CHUNK_BYTES = 1 << 16
MAX_LINE_BYTES = 8192
"""Longest line that is searched for metrics; a longer one is cut."""
TAIL_BYTES = 16_384
MAX_LOG_BYTES = 256 * 1024**2
"""Most output kept on the worker's disk; the service keeps less."""
NOTE = b"\n[redkiln: output limit reached; further output is discarded]\n"

OnLine = Callable[[str], None]


class OutputPump:
    """Reads a pipe to its end in a thread, and writes the data to the log.

    Attributes:
        num_bytes: Bytes read so far.
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
        """Wait until every process has closed its end of the pipe, or the timeout expires."""
        self._thread.join(timeout_seconds)

    def tail(self) -> str:
        """Return the end of the output, with invalid bytes replaced."""
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
            self._max_bytes = 0  # the disk is full: the script continues without a log

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
