"""Uploads an attempt's files to the service."""

import hashlib
from pathlib import Path
from typing import BinaryIO, Protocol

from redkiln.failure import FailureCode, JobFailure
from redkiln.protocol import ArtifactCommit
from worker.beneath import has_file_beneath, open_beneath
from worker.jobdir import EXTRAS, JobDir, ListRefused, OutputFile

LOG = OutputFile(name="trainer.log", kind="log", media_type="text/plain; charset=utf-8")


class Blobs(Protocol):
    """Stores bytes under their digest."""

    def has_blob(self, sha256: str) -> bool:
        """Return whether the service has these bytes already."""

    def put_blob(self, sha256: str, content: BinaryIO) -> None:
        """Store bytes under their digest."""


def refuse_list(jobdir: JobDir) -> JobFailure | None:
    """Return the failure of a job whose list of files is refused; None if it is fine."""
    try:
        jobdir.load_outputs()
    except ListRefused as error:
        message = f"the job's list of files is refused, so none of them is kept: {error}"
        return JobFailure.of(FailureCode.BAD_INPUT, message)
    return None


def list_files(jobdir: JobDir) -> list[tuple[Path, OutputFile]]:
    """List the files to publish: those that a child listed, the extra files, and the log.

    A file counts only if no link leads to it. Of a refused list (`refuse_list`) nothing counts.
    """
    try:
        outputs = {output.name: output for output in jobdir.load_outputs()}
    except ListRefused:
        outputs = {}
    files = [(jobdir.locate(output), output) for output in outputs.values()]
    files += [(jobdir.extra_dir / e.name, e) for e in EXTRAS if e.name not in outputs]
    if LOG.name not in outputs:
        files.append((jobdir.log_path, LOG))
    return [(path, output) for path, output in files if _is_ours(path, jobdir.root)]


def _is_ours(path: Path, root: Path) -> bool:
    return has_file_beneath(root, path.relative_to(root).as_posix())


def upload_file(client: Blobs, path: Path, output: OutputFile, *, root: Path) -> ArtifactCommit:
    """Upload a file, unless the service has its bytes, and describe it.

    The file is opened once, without following links: a script may have put a link in its path.

    Args:
        client: Receives the file.
        path: The file's path.
        output: The file's name, kind and media type.
        root: The job directory, which contains the file.

    Raises:
        ServiceError: See `worker.agent.client`.
        OSError: The file cannot be read, is not a regular file, or its path contains a link.
    """
    with open_beneath(root, path.relative_to(root).as_posix()) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        size_bytes = file.tell()
        if not client.has_blob(sha256):
            file.seek(0)
            client.put_blob(sha256, file)
    return ArtifactCommit(
        name=output.name,
        kind=output.kind,
        media_type=output.media_type,
        sha256=sha256,
        size_bytes=size_bytes,
        verified=output.verified,
    )
