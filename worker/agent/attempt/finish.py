"""The end of an attempt: upload the remaining files, then report the outcome."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import structlog

from redkiln.failure import FailureCode, JobFailure
from redkiln.protocol import ArtifactCommit, FinishRequest
from redkiln.status import JobStatus
from worker.agent.attempt.artifacts import list_files, upload_file
from worker.agent.attempt.checkpoints import CheckpointUploader
from worker.agent.attempt.reporter import Reporter
from worker.agent.backoff import Backoff
from worker.agent.client import AttemptClient, Refused, ServiceAway
from worker.agent.stopping import Stopped, StopReason, StopSignal
from worker.jobdir import JobDir, OutputFile

log = structlog.get_logger(__name__)

Outcome = Literal["succeeded", "failed", "released", "paused", "cancelled"]
Answer = TypeVar("Answer")


class GaveUp(Exception):  # noqa: N818  # it is a decision
    """The worker has no time left to shut down; the service will notice when the lease expires."""


def decide_outcome(failure: JobFailure | None, reason: StopReason | None) -> Outcome:
    """Decide the outcome: a cancel overrides everything, a pause or shutdown only failed work."""
    if reason == StopReason.CANCELLED:
        return "cancelled"
    if failure is None:
        return "succeeded"
    if reason == StopReason.PAUSED:
        return "paused"
    is_ours = reason == StopReason.SHUTDOWN or failure.code == FailureCode.GPU_BUSY
    return "released" if is_ours else "failed"


@dataclass(frozen=True)
class Closing:
    """Ends an attempt whose processes have exited.

    Attributes:
        is_out_of_time: Whether the worker is shutting down and has waited long enough for the
            service.
    """

    client: AttemptClient
    jobdir: JobDir
    stop: StopSignal
    reporter: Reporter
    uploader: CheckpointUploader
    is_out_of_time: Callable[[], bool]

    def finish(self, failure: JobFailure | None) -> Outcome:
        """Upload checkpoints, files, events and log; then end the attempt.

        Raises:
            Superseded: The attempt belongs to another worker now.
            Stopped: Another thread learned that the attempt is superseded.
            GaveUp: The worker is shutting down and the service does not answer.
        """
        outcome = decide_outcome(failure, self.stop.reason)
        artifacts: list[ArtifactCommit] = []
        try:
            artifacts = self._hand_in(outcome)
        except Stopped:
            self.stop.check(least=StopReason.SUPERSEDED)
            outcome = "cancelled"
        except Refused as error:
            failure = failure or _refusal(error)
            outcome = "failed"
        self.uploader.halt()
        self.reporter.halt()
        try:
            self._until_answered(self.reporter.flush)
        except Refused as error:
            failure = failure or _refusal(error)
            outcome, artifacts = "failed", []
        request = FinishRequest(
            outcome=outcome,
            last_seq=self.reporter.last_seq,
            failure=None if outcome == "succeeded" else failure,
            artifacts=artifacts,
        )
        answer = self._until_answered(partial(self.client.finish, request))
        # The service may have received a cancel before our request.
        return "cancelled" if answer.job_status == JobStatus.CANCELLED else outcome

    def _hand_in(self, outcome: Outcome) -> list[ArtifactCommit]:
        if outcome in ("failed", "released", "paused"):
            # The next attempt of the job starts from the newest checkpoint.
            while not self.uploader.drain(timeout_seconds=0.1):
                self._check(least=StopReason.CANCELLED)
        if outcome not in ("succeeded", "failed"):
            return []
        return [
            commit
            for path, output in list_files(self.jobdir)
            if (commit := self._until_answered(partial(self._upload, path, output))) is not None
        ]

    def _upload(self, path: Path, output: OutputFile) -> ArtifactCommit | None:
        try:
            return upload_file(self.client, path, output, root=self.jobdir.root)
        except OSError as error:
            if output.path is None:
                raise
            # A script has replaced the file since it was listed.
            log.warning("file not uploaded", name=output.name, error=str(error))
            return None

    def _until_answered(self, ask: Callable[[], Answer]) -> Answer:
        backoff = Backoff()
        while True:
            try:
                return ask()
            except ServiceAway as error:
                log.warning("service unreachable while an attempt ends; retrying", error=str(error))
            self._check(least=StopReason.SUPERSEDED)
            time.sleep(backoff.next_seconds())

    def _check(self, *, least: StopReason) -> None:
        self.stop.check(least=least)
        if self.is_out_of_time():
            raise GaveUp


def _refusal(error: Refused) -> JobFailure:
    text = f"The service refused the attempt's results: {error}"
    return JobFailure.of(FailureCode.INTERNAL, text)
