"""The sample predictions of a job: a file for the newest, and one for each of some earlier steps.

The file's first line describes it as JSON; the picture or table follows. A preview is not an
artifact: nothing refers to it, and it is deleted with its job.
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
MOST_EARLIER = 24
"""Earlier previews that a job keeps, spread over its steps."""
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


def preview_path(previews_dir: Path, job_id: str, *, step: int | None = None) -> Path:
    """Return the path of a job's newest preview, or of the earlier one of a step."""
    return previews_dir / (f"{job_id}.preview" if step is None else f"{job_id}@{step:016}.preview")


def save_preview(
    path: Path, content: bytes, *, attempt_id: str, step: int, media_type: str
) -> PreviewFacts:
    """Save a job's newest preview; the one before becomes an earlier one.

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
        _keep_as_earlier(path, before_step=step)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull("the service's disk is full; delete jobs or data sets") from error
    return facts


def find_preview(path: Path) -> Preview | None:
    """Return the preview in a file, if it exists."""
    try:
        head, _, content = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    return Preview(PreviewFacts(**json.loads(head)), content)


def list_previews(path: Path) -> list[PreviewFacts]:
    """Return the previews of a job by rising step; `path` is that of the newest."""
    newest = find_preview(path)
    if newest is None:
        return []
    found = [find_preview(earlier) for earlier in _earlier(path)]
    return [preview.facts for preview in (*found, newest) if preview is not None]


def delete_previews(path: Path) -> None:
    """Delete all previews of a job; `path` is that of the newest."""
    for one in (path, *_earlier(path)):
        one.unlink(missing_ok=True)


def job_of(path: Path) -> str:
    """Return the id of the job that a file with a preview belongs to."""
    return path.stem.partition("@")[0]


def _earlier(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.stem}@*.preview"))


def _keep_as_earlier(path: Path, *, before_step: int) -> None:
    """Keep the newest preview as an earlier one, unless a restart has voided its step."""
    newest = find_preview(path)
    if newest is not None:
        path.replace(preview_path(path.parent, path.stem, step=newest.facts.step))
    steps = [_step_of(one) for one in _earlier(path)]
    kept = _spread([step for step in steps if step < before_step])
    for step in set(steps).difference(kept):
        preview_path(path.parent, path.stem, step=step).unlink()


def _step_of(path: Path) -> int:
    return int(path.stem.partition("@")[2])


def _spread(steps: list[int]) -> list[int]:
    """Return at most `MOST_EARLIER` of the rising steps: the first, and others far apart."""
    while len(steps) > MOST_EARLIER:
        gaps = [after - before for before, after in zip(steps, steps[2:], strict=False)]
        steps = [step for i, step in enumerate(steps) if i != 1 + gaps.index(min(gaps))]
    return steps
