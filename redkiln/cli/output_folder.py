"""The folder of a job's results: `out/<job name>`, one job a folder."""

from pathlib import Path

from redkiln.client.result_folder import find_owner
from redkiln.errors import TransferError
from redkiln.protocol import RESULT_MARK
from redkiln.spec.written import make_name
from redkiln.views.job import JobView


def choose_folder(parent: Path, job: JobView) -> Path:
    """Return a folder named after the job, never one that holds another job's results."""
    name = make_name(job.name)
    folder = parent / name
    if not folder.exists() or find_owner(folder) == job.id:
        return folder
    return parent / f"{name}-{job.id[-6:]}"


def mark_folder(folder: Path, job: JobView) -> None:
    """Create the folder and write the job's description into it.

    Raises:
        TransferError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESULT_MARK).write_text(job.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise TransferError(f"{folder} cannot be written: {error.strerror}") from error
