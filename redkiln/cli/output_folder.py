"""The folder of a job's results: `out/<job name>`, one job a folder."""

import re
from pathlib import Path

from redkiln.errors import TransferError
from redkiln.job import JobView
from redkiln.protocol import RESULT_MARK
from redkiln.result_folder import find_owner


def choose_folder(parent: Path, job: JobView) -> Path:
    """A folder named after the job; another job's results are never mixed in."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", job.name).strip("-.") or job.id
    folder = parent / name
    if not folder.exists() or find_owner(folder) == job.id:
        return folder
    return parent / f"{name}-{job.id[-6:]}"


def mark_folder(folder: Path, job: JobView) -> None:
    """Make the folder and leave the job's description in it.

    Raises:
        TransferError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESULT_MARK).write_text(job.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise TransferError(f"{folder} cannot be written: {error.strerror}") from error
