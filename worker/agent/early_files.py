"""Files that a script leaves while it runs: uploaded and published one after the other."""

import threading
import time
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

import structlog

from redkiln.protocol import ArtifactCommit
from worker.agent.artifacts import upload_file
from worker.agent.backoff import Backoff
from worker.agent.client import Refused, ServiceAway, Superseded
from worker.agent.stopping import StopReason, StopSignal
from worker.jobdir import JobDir, OutputFile

log = structlog.get_logger(__name__)


class Publisher(Protocol):
    """Where files go."""

    def has_blob(self, sha256: str) -> bool:
        """Whether these bytes are there already."""

    def put_blob(self, sha256: str, content: BinaryIO) -> None:
        """Store bytes under their digest."""

    def publish_artifact(self, commit: ArtifactCommit) -> None:
        """Make it one of the job's artifacts."""


@dataclass
class EarlyFiles:
    """A thread that publishes files in the order in which they became whole.

    It is a service to whoever watches: at the end of the attempt all files are handed in again,
    and what went wrong here goes right there, or is told there.
    """

    client: Publisher
    jobdir: JobDir
    stop: StopSignal
    _waiting: dict[str, OutputFile] = field(default_factory=dict)
    _is_busy: bool = False
    _is_over: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def offer(self, data: dict[str, Any]) -> None:
        """An ARTIFACT event's data; of a file that waits already, only the newest counts."""
        with self._changed:
            output = OutputFile.model_validate(data["file"])
            self._waiting[output.name] = output
            if self._thread is None and not self._is_over:
                self._thread = threading.Thread(target=self._run, name="early-files", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that waits is published; whether it is."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting and not self._is_busy, timeout_seconds
            )

    def halt(self) -> None:
        """Publish no further file; the one in flight is waited for."""
        with self._changed:
            self._is_over = True
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (output := self._next()) is not None:
            try:
                self._hand_in(output)
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()

    def _next(self) -> OutputFile | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_over)
            if self._is_over:
                return None
            self._is_busy = True
            return self._waiting.pop(next(iter(self._waiting)))

    def _hand_in(self, output: OutputFile) -> None:
        backoff = Backoff()
        path = self.jobdir.locate(output)
        while not self._is_over:
            try:
                commit = upload_file(self.client, path, output, root=self.jobdir.root)
                self.client.publish_artifact(commit)
            except ServiceAway as error:
                log.warning("file not published yet", name=output.name, error=str(error))
                time.sleep(backoff.next_seconds())
            except Superseded:
                self.stop.request(StopReason.SUPERSEDED)
                return
            except (Refused, OSError, ValueError) as error:
                # Written anew meanwhile, or removed: what there is at the end counts.
                log.info("file not published", name=output.name, error=str(error))
                return
            else:
                return
