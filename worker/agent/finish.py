"""The end of an attempt: what is left goes up, then one word about how it went."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import structlog

from redkiln.failure import FailureCode, JobFailure
from redkiln.job import JobStatus
from redkiln.protocol import ArtifactCommit, FinishRequest
from worker.agent.artifacts import list_files, upload_file
from worker.agent.backoff import Backoff
from worker.agent.checkpoints import CheckpointUploader
from worker.agent.client import AttemptClient, Refused, ServiceAway
from worker.agent.report import Reporter
from worker.agent.stopping import Stopped, StopReason, StopSignal
from worker.jobdir import JobDir, OutputFile

log = structlog.get_logger(__name__)

Outcome = Literal["succeeded", "failed", "released", "paused", "cancelled"]
Answer = TypeVar("Answer")


class GaveUp(Exception):  # noqa: N818  # it is a decision
    """The worker's time to shut down is over; the lease will tell the service."""


def decide_outcome(failure: JobFailure | None, reason: StopReason | None) -> Outcome:
    """What to finish with: a cancel counts before all, a pause or shutdown for work not done."""
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
    """What it takes to end an attempt whose processes are gone.

    Attributes:
        is_out_of_time: whether the worker shuts down and has waited long enough for the service.
    """

    client: AttemptClient
    jobdir: JobDir
    stop: StopSignal
    reporter: Reporter
    uploader: CheckpointUploader
    is_out_of_time: Callable[[], bool]

    def finish(self, failure: JobFailure | None) -> Outcome:
        """Hand in checkpoints, files, events and log; then end the attempt.

        Raises:
            Superseded: the attempt is no longer ours.
            Stopped: as `Superseded`, heard by another thread.
            GaveUp: the worker shuts down and the service does not answer.
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
        # A cancel may have come before our word.
        return "cancelled" if answer.job_status == JobStatus.CANCELLED else outcome

    def _hand_in(self, outcome: Outcome) -> list[ArtifactCommit]:
        if outcome in ("failed", "released", "paused"):
            # Whoever goes on with the job starts from the newest checkpoint.
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
            # A script has put something else in its place since it was listed.
            log.warning("file not handed in", name=output.name, error=str(error))
            return None

    def _until_answered(self, ask: Callable[[], Answer]) -> Answer:
        backoff = Backoff()
        while True:
            try:
                return ask()
            except ServiceAway as error:
                log.warning("the service is away at an attempt's end", error=str(error))
            self._check(least=StopReason.SUPERSEDED)
            time.sleep(backoff.next_seconds())

    def _check(self, *, least: StopReason) -> None:
        self.stop.check(least=least)
        if self.is_out_of_time():
            raise GaveUp


def _refusal(error: Refused) -> JobFailure:
    return JobFailure.of(FailureCode.INTERNAL, f"The service refused what the job left: {error}")
