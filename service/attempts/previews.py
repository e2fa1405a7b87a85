"""The newest sample predictions of a job: one file, replaced as a whole, deleted with the job.

The file's first line describes it as JSON; the picture or table follows. A preview is not an
artifact: nothing refers to it, and the next evaluation replaces a lost one.
"""

import errno
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from service.errors import StorageFull, TooLarge, UnsupportedMedia

MAX_BYTES = 1024**2
"""A picture of two dozen samples takes some 100 KB."""
MEDIA_TYPES = ("image/png", "text/markdown")
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class PreviewFacts:
    """The description of a preview.

    Attributes:
        step: Step at which the predictions were made.
        made_at: Time at which the service received it, RFC 3339.
    """

    attempt_id: str
    step: int
    media_type: str
    made_at: str
    sha256: str


@dataclass(frozen=True)
class Preview:
    """A stored preview."""

    facts: PreviewFacts
    content: bytes


def preview_path(previews_dir: Path, job_id: str) -> Path:
    """Return the path of a job's preview."""
    return previews_dir / f"{job_id}.preview"


def save_preview(
    path: Path, content: bytes, *, attempt_id: str, step: int, media_type: str
) -> PreviewFacts:
    """Replace a job's preview.

    Raises:
        UnsupportedMedia: The preview is neither PNG nor Markdown.
        TooLarge: The preview has more than `MAX_BYTES`.
        StorageFull: The disk is full.
    """
    if media_type not in MEDIA_TYPES:
        raise UnsupportedMedia(f"a preview must be one of {', '.join(MEDIA_TYPES)}")
    if media_type == "image/png" and not content.startswith(PNG_MAGIC):
        raise UnsupportedMedia("the preview is not a PNG image")
    if len(content) > MAX_BYTES:
        raise TooLarge(f"a preview may have at most {MAX_BYTES:,} bytes")
    facts = PreviewFacts(
        attempt_id=attempt_id,
        step=step,
        media_type=media_type,
        made_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=".preview-")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(json.dumps(asdict(facts)).encode() + b"\n" + content)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull("the service's disk is full; delete jobs or data sets") from error
    return facts


def find_preview(path: Path) -> Preview | None:
    """Return a job's preview, if it has one."""
    try:
        head, _, content = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    return Preview(PreviewFacts(**json.loads(head)), content)
