"""Checkpoint transfer: up while training runs, down when another attempt resumes from one.

A checkpoint is two files in the job directory: `step-<12 digits>.safetensors` and the trainer's
manifest of the same name in `.json`.
"""

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import structlog

from redkiln.protocol import CheckpointCommit, CheckpointReceipt, CheckpointRef
from worker.agent.attempt.courier import Courier
from worker.agent.backoff import Backoff
from worker.agent.client import AttemptClient, Refused, ServiceAway, Superseded
from worker.agent.data.transfer import WrongDigest, fetch_file
from worker.agent.stopping import StopReason, StopSignal
from worker.beneath import open_beneath

log = structlog.get_logger(__name__)

REPORT_LOOK_SECONDS = 0.2
"""How often a checkpoint that waits for a report checks whether the attempt is over."""


class Checkpoints(Protocol):
    """Stores checkpoints."""

    def has_blob(self, sha256: str) -> bool:
        """Return whether the service has these bytes already."""

    def put_blob(self, sha256: str, content: BinaryIO) -> None:
        """Store bytes under their digest."""

    def commit_checkpoint(self, commit: CheckpointCommit) -> CheckpointReceipt:
        """Make it a checkpoint that the job can resume from."""


@dataclass(frozen=True, order=True)
class Announced:
    """A checkpoint that the trainer has written.

    Attributes:
        events_end: Offset in the events' file after the checkpoint's event.
    """

    step: int
    file: str
    is_best: bool
    events_end: int = field(default=0, compare=False)

    @classmethod
    def of(cls, data: dict[str, Any], *, events_end: int) -> "Announced":
        """Read the data of a CHECKPOINT event."""
        is_best = bool(data.get("is_best", False))
        return cls(int(data["step"]), str(data["file"]), is_best, events_end)


def enqueue(waiting: list[Announced], new: Announced) -> list[Announced]:
    """Return the uploads still to make, in order: the newest best, then the newest."""
    best = [item for item in (*waiting, new) if item.is_best][-1:]
    return sorted({*best, new})


@dataclass
class CheckpointUploader(Courier[Announced]):
    """A thread that uploads and commits checkpoints one at a time and skips superseded ones.

    A job resumes behind a committed checkpoint, so the events before it would be lost with this
    attempt. A checkpoint is therefore committed only after they have been reported.

    Attributes:
        wait_reported: Waits at most the given seconds until the events before an offset are
            reported, or never will be; returns whether that is so.
        distrusted: Digests of checkpoints that are damaged on the service; if one is written
            again, it is uploaded again.
    """

    thread_name = "checkpoints"
    client: Checkpoints
    folder: Path
    stop: StopSignal
    wait_reported: Callable[[int, float], bool]
    distrusted: Collection[str] = frozenset()

    def offer(self, data: dict[str, Any], *, events_end: int) -> None:
        """Queue the checkpoint of a CHECKPOINT event for upload.

        Args:
            data: The event's data.
            events_end: Offset in the events' file after this event.
        """
        with self.changed:
            self.waiting = enqueue(self.waiting, Announced.of(data, events_end=events_end))
            self.changed.notify_all()

    def hand_in(self, item: Announced) -> None:
        """Upload and commit a checkpoint."""
        backoff = Backoff()
        while not self.is_over:
            try:
                commit = upload_checkpoint(
                    self.client, self.folder, item, distrusted=self.distrusted
                )
                if self._is_reported(item):
                    self.client.commit_checkpoint(commit)
            except ServiceAway as error:
                log.warning("checkpoint upload will be retried", step=item.step, error=str(error))
                time.sleep(backoff.next_seconds())
                if self._is_overtaken(item):
                    return
            except Superseded:
                self.stop.request(StopReason.SUPERSEDED)
                return
            except FileNotFoundError:
                log.info("checkpoint was removed before it was uploaded", step=item.step)
                return
            except (Refused, OSError, ValueError) as error:
                log.error("checkpoint refused", step=item.step, error=str(error))
                return
            else:
                return

    def _is_reported(self, item: Announced) -> bool:
        """Wait for the report of the events before a checkpoint; False: the attempt is over."""
        while not self.wait_reported(item.events_end, REPORT_LOOK_SECONDS):
            if self.is_over:
                return False
        return True

    def _is_overtaken(self, item: Announced) -> bool:
        with self.changed:
            if not self.waiting:
                return False
            return item not in enqueue([item], self.waiting[-1])


def upload_checkpoint(
    client: Checkpoints, folder: Path, item: Announced, *, distrusted: Collection[str] = ()
) -> CheckpointCommit:
    """Upload a checkpoint's bytes; return what commits it.

    Raises:
        ServiceError: See `worker.agent.client`.
        FileNotFoundError: The trainer has removed it already.
    """
    # A job that runs its user's code may have put anything there.
    with open_beneath(folder, item.file) as file:
        with open_beneath(folder, Path(item.file).with_suffix(".json").as_posix()) as text:
            manifest = json.load(text)
        sha256, size_bytes = str(manifest["sha256"]), int(manifest["size_bytes"])
        if sha256 in distrusted or not client.has_blob(sha256):
            client.put_blob(sha256, file)
    return CheckpointCommit(
        step=item.step,
        sha256=sha256,
        size_bytes=size_bytes,
        is_best=item.is_best,
        manifest=manifest,
    )


def fetch_checkpoints(
    refs: list[CheckpointRef],
    folder: Path,
    *,
    client: AttemptClient,
    stop: StopSignal,
    warn: Callable[[str], None],
) -> CheckpointRef | None:
    """Download committed checkpoints into the job directory: the newest, and the best before it.

    They may be large, so an older one is fetched only if the newer ones are damaged.

    Returns:
        The newest one that arrived intact; None if none did.

    Raises:
        Stopped: The attempt was asked to stop meanwhile.
        Superseded: The attempt belongs to another worker now.
        OSError: The disk is full.
    """
    folder.mkdir(exist_ok=True)
    newest = None
    for ref in sorted(refs, key=lambda ref: ref.step, reverse=True):
        if newest is not None and not ref.is_best:
            continue
        try:
            _fetch(ref, folder / name_file(ref), client=client, stop=stop)
        except (WrongDigest, Refused) as error:
            warn(f"The checkpoint of step {ref.step} could not be fetched: {error}")
            continue
        newest = newest or ref
    return newest


def name_file(ref: CheckpointRef) -> str:
    """Return a fetched checkpoint's file name in the job directory."""
    # A script's checkpoint is a folder packed as tar (worker.script.results.snapshots).
    suffix = ".tar" if ref.manifest.get("format") == "folder" else ".safetensors"
    return f"step-{ref.step:012d}{suffix}"


def _fetch(ref: CheckpointRef, target: Path, *, client: AttemptClient, stop: StopSignal) -> None:
    partial = target.with_suffix(".partial")
    fetch_file(
        lambda start: client.open_blob(ref.sha256, start=start),
        partial,
        sha256=ref.sha256,
        stop=stop,
    )
    target.with_suffix(".json").write_text(json.dumps(ref.manifest))
    partial.rename(target)
