"""Sample predictions on their way to the service: the newest one, and none of it worth a retry."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import structlog
from pydantic import ValidationError

from redkiln.job import PreviewNote
from worker.agent.client import ServiceAway, ServiceError, Superseded
from worker.agent.stopping import StopReason, StopSignal

log = structlog.get_logger(__name__)


class Previews(Protocol):
    """Where previews go."""

    def put_preview(self, content: bytes, *, step: int, media_type: str) -> None:
        """Replace the job's preview."""


@dataclass
class PreviewUploader:
    """A thread that hands previews in; one that is overtaken is skipped."""

    client: Previews
    folder: Path
    stop: StopSignal
    _waiting: PreviewNote | None = None
    _seen: str | None = None
    _is_busy: bool = False
    _is_over: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Hand in from now on."""
        self._thread = threading.Thread(target=self._run, name="previews", daemon=True)
        self._thread.start()

    def offer(self, progress: dict[str, Any]) -> None:
        """A PROGRESS event's data, which names the newest preview time and again."""
        named = progress.get("preview")
        if named is None or named.get("file") == self._seen:
            return
        try:
            note = PreviewNote.model_validate(named)
        except ValidationError as error:
            log.warning("a preview that cannot be read", error=str(error))
            return
        with self._changed:
            self._seen, self._waiting = note.file, note
            self._changed.notify_all()

    def drain(self, *, timeout_seconds: float) -> bool:
        """Wait until nothing waits; whether it came to that."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._waiting is None and not self._is_busy, timeout_seconds
            )

    def halt(self) -> None:
        """Hand nothing more in."""
        with self._changed:
            self._is_over, self._waiting = True, None
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (note := self._next()) is not None:
            try:
                self._hand_in(note)
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()

    def _next(self) -> PreviewNote | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._is_over)
            note, self._waiting = self._waiting, None
            self._is_busy = note is not None
            return note

    def _hand_in(self, note: PreviewNote) -> None:
        try:
            content = (self.folder / Path(note.file).name).read_bytes()
            self.client.put_preview(content, step=note.step, media_type=note.media_type)
        except Superseded:
            self.stop.request(StopReason.SUPERSEDED)
        except ServiceAway as error:
            log.info("preview not handed in", step=note.step, error=str(error))
        except (ServiceError, OSError) as error:
            log.warning("preview refused", step=note.step, error=str(error))
