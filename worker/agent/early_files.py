"""Files that a script leaves while it runs: uploaded and published one after the other."""

import time
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import structlog

from redkiln.protocol import ArtifactCommit
from worker.agent.artifacts import upload_file
from worker.agent.backoff import Backoff
from worker.agent.client import Refused, ServiceAway, Superseded
from worker.agent.courier import Courier
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
class EarlyFiles(Courier[OutputFile]):
    """A thread that publishes files in the order in which they became whole.

    It is a service to whoever watches: at the end of the attempt all files are handed in again,
    and what went wrong here goes right there, or is told there.
    """

    thread_name = "early-files"
    client: Publisher
    jobdir: JobDir
    stop: StopSignal

    def offer(self, data: dict[str, Any]) -> None:
        """An ARTIFACT event's data; of a file that waits already, only the newest counts."""
        output = OutputFile.model_validate(data["file"])
        with self.changed:
            names = [item.name for item in self.waiting]
            if output.name in names:
                self.waiting[names.index(output.name)] = output
            else:
                self.waiting.append(output)
            if not self.is_over:
                self.start()
            self.changed.notify_all()

    def hand_in(self, output: OutputFile) -> None:
        """Upload and publish a file."""
        backoff = Backoff()
        path = self.jobdir.locate(output)
        while not self.is_over:
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
