"""Files that a script leaves while it runs: uploaded and published one after the other."""

import time
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import structlog

from redkiln.protocol import ArtifactCommit
from worker.agent.attempt.artifacts import upload_file
from worker.agent.attempt.courier import Courier
from worker.agent.backoff import Backoff
from worker.agent.client import Refused, ServiceAway, Superseded
from worker.agent.stopping import StopReason, StopSignal
from worker.jobdir import JobDir, OutputFile

log = structlog.get_logger(__name__)


class Publisher(Protocol):
    """Publishes files."""

    def has_blob(self, sha256: str) -> bool:
        """Return whether the service has these bytes already."""

    def put_blob(self, sha256: str, content: BinaryIO) -> None:
        """Store bytes under their digest."""

    def publish_artifact(self, commit: ArtifactCommit) -> None:
        """Make it one of the job's artifacts."""


@dataclass
class EarlyFiles(Courier[OutputFile]):
    """A thread that publishes files in the order in which they were completed.

    It only lets users see files early. At the end of the attempt all files are uploaded again, so
    an upload that fails here succeeds then or is reported then.
    """

    thread_name = "early-files"
    client: Publisher
    jobdir: JobDir
    stop: StopSignal

    def offer(self, data: dict[str, Any]) -> None:
        """Queue an ARTIFACT event's file; it replaces a waiting file of the same name."""
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
                # Rewritten or removed meanwhile; the end of the attempt uploads the final file.
                log.info("file not published", name=output.name, error=str(error))
                return
            else:
                return
