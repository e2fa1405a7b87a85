"""Uploads sample predictions: only the latest one, and never with a retry."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import structlog
from pydantic import ValidationError

from redkiln.views.job import PreviewNote
from worker.agent.attempt.courier import Courier
from worker.agent.client import ServiceAway, ServiceError, Superseded
from worker.agent.stopping import StopReason, StopSignal

log = structlog.get_logger(__name__)


class Previews(Protocol):
    """Receives previews."""

    def put_preview(self, content: bytes, *, step: int, media_type: str) -> None:
        """Replace the job's preview."""


@dataclass
class PreviewUploader(Courier[PreviewNote]):
    """A thread that uploads previews and skips one that has been replaced.

    Args:
        client: Client for the attempt's calls.
        folder: Folder with the previews.
        stop: Stop signal; requested when the attempt is superseded.
        guarded: Runs the upload and catches whatever it raises.
    """

    thread_name = "previews"
    client: Previews
    folder: Path
    stop: StopSignal
    guarded: Callable[[Callable[[], None]], None]
    _seen: str | None = None

    def offer(self, progress: dict[str, Any]) -> None:
        """Queue the preview named by a PROGRESS event, unless it was queued already."""
        named = progress.get("preview")
        if named is None or named.get("file") == self._seen:
            return
        try:
            note = PreviewNote.model_validate(named)
        except ValidationError as error:
            log.warning("cannot parse a preview's description", error=str(error))
            return
        with self.changed:
            self._seen, self.waiting = note.file, [note]
            self.changed.notify_all()

    def hand_in(self, note: PreviewNote) -> None:
        """Send a preview, once."""
        self.guarded(partial(self._send, note))

    def _send(self, note: PreviewNote) -> None:
        try:
            content = (self.folder / Path(note.file).name).read_bytes()
            self.client.put_preview(content, step=note.step, media_type=note.media_type)
        except Superseded:
            self.stop.request(StopReason.SUPERSEDED)
        except ServiceAway as error:
            log.info("preview not sent", step=note.step, error=str(error))
        except (ServiceError, OSError) as error:
            log.warning("preview refused", step=note.step, error=str(error))
