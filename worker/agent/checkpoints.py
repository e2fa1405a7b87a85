"""Checkpoints on their way: up while training goes on, down when another attempt goes on from one.

A checkpoint is two files in the job directory: `step-<12 digits>.safetensors` and the trainer's
manifest of the same name in `.json`.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import structlog

from redkiln.protocol import CheckpointCommit, CheckpointReceipt, CheckpointRef
from worker.agent.backoff import Backoff
from worker.agent.client import AttemptClient, Refused, ServiceAway, Superseded
from worker.agent.stopping import StopReason, StopSignal
from worker.agent.transfer import WrongDigest, fetch_file

log = structlog.get_logger(__name__)


class Checkpoints(Protocol):
    """Where checkpoints go."""

    def has_blob(self, sha256: str) -> bool:
        """Whether these bytes are there already."""

    def put_blob(self, sha256: str, content: BinaryIO) -> None:
        """Store bytes under their digest."""

    def commit_checkpoint(self, commit: CheckpointCommit) -> CheckpointReceipt:
        """Make it one that the job can resume from."""


@dataclass(frozen=True, order=True)
class Announced:
    """A checkpoint that the trainer has written."""

    step: int
    file: str
    is_best: bool

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Announced":
        """From the data of a CHECKPOINT event."""
        return cls(int(data["step"]), str(data["file"]), bool(data.get("is_best", False)))


def enqueue(waiting: list[Announced], new: Announced) -> list[Announced]:
    """What shall still go up, in order: the newest, and before it the newest best."""
    best = [item for item in (*waiting, new) if item.is_best][-1:]
    return sorted({*best, new})


@dataclass
class CheckpointUploader:
    """A thread that uploads and commits checkpoints one at a time; what is overtaken is skipped."""

    client: Checkpoints
    folder: Path
    stop: StopSignal
    _waiting: list[Announced] = field(default_factory=list)
    _is_busy: bool = False
    _is_over: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Upload from now on."""
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
        self._thread.start()

    def offer(self, data: dict[str, Any]) -> None:
        """A CHECKPOINT event's data: upload it as soon as the one before is through."""
        with self._changed:
            self._waiting = enqueue(self._waiting, Announced.of(data))
            self._changed.notify_all()

    def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until all that waits is committed; whether it is."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting and not self._is_busy, timeout_seconds
            )

    def halt(self) -> None:
        """Start no further upload; the one in flight is waited for."""
        with self._changed:
            self._waiting = []
            self._is_over = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            try:
                self._hand_in(item)
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()

    def _next(self) -> Announced | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_over)
            if self._is_over:
                return None
            self._is_busy = True
            return self._waiting.pop(0)

    def _hand_in(self, item: Announced) -> None:
        backoff = Backoff()
        while not self._is_over:
            try:
                upload_checkpoint(self.client, self.folder, item)
            except ServiceAway as error:
                log.warning("checkpoint not handed in yet", step=item.step, error=str(error))
                time.sleep(backoff.next_seconds())
                if self._is_overtaken(item):
                    return
            except Superseded:
                self.stop.request(StopReason.SUPERSEDED)
                return
            except FileNotFoundError:
                log.info("checkpoint is gone before it was handed in", step=item.step)
                return
            except (Refused, OSError, ValueError) as error:
                log.error("checkpoint refused", step=item.step, error=str(error))
                return
            else:
                return

    def _is_overtaken(self, item: Announced) -> bool:
        with self._changed:
            if not self._waiting:
                return False
            return item not in enqueue([item], self._waiting[-1])


def upload_checkpoint(client: Checkpoints, folder: Path, item: Announced) -> None:
    """Upload a checkpoint's bytes and commit it.

    Raises:
        ServiceError: see `worker.agent.client`.
        FileNotFoundError: the trainer has removed it already.
    """
    with (folder / item.file).open("rb") as file:
        manifest = json.loads((folder / item.file).with_suffix(".json").read_bytes())
        sha256, size_bytes = str(manifest["sha256"]), int(manifest["size_bytes"])
        if not client.has_blob(sha256):
            client.put_blob(sha256, file)
    client.commit_checkpoint(
        CheckpointCommit(
            step=item.step,
            sha256=sha256,
            size_bytes=size_bytes,
            is_best=item.is_best,
            manifest=manifest,
        )
    )


def fetch_checkpoints(
    refs: list[CheckpointRef],
    folder: Path,
    *,
    client: AttemptClient,
    stop: StopSignal,
    warn: Callable[[str], None],
) -> str | None:
    """Put committed checkpoints into the job directory.

    Returns:
        The file name of the newest one that arrived whole; None if none did.

    Raises:
        Stopped: the attempt was asked to stop meanwhile.
        Superseded: the attempt is no longer ours.
        OSError: the disk is full.
    """
    folder.mkdir(exist_ok=True)
    newest = None
    for ref in sorted(refs, key=lambda ref: ref.step):
        # A script's checkpoint is a folder, packed (worker.script.snapshots).
        suffix = ".tar" if ref.manifest.get("format") == "folder" else ".safetensors"
        name = f"step-{ref.step:012d}{suffix}"
        try:
            _fetch(ref, folder / name, client=client, stop=stop)
        except (WrongDigest, Refused) as error:
            warn(f"the checkpoint of step {ref.step} could not be fetched: {error}")
            continue
        newest = name
    return newest


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
