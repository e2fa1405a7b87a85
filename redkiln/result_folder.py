"""A folder with a job's results: whose it is, and where in it each artifact goes."""

import json
from pathlib import Path

from redkiln.errors import TransferError
from redkiln.protocol import RESULT_MARK, check_artifact_name


def place_artifact(folder: Path, name: str) -> Path:
    """Where an artifact is written; its name may hold folders, and never leads out of this one.

    Args:
        folder: of the results.
        name: of the artifact, as the service says it.

    Raises:
        TransferError: the name is none that a service of this version would give.
    """
    try:
        check_artifact_name(name)
    except ValueError as error:
        raise TransferError(
            f"{name!r} is no name for a file here, and nothing was written: {error}"
        ) from error
    return folder / name


def find_owner(folder: Path) -> str | None:
    """Id of the job whose results a folder holds; None where it holds none."""
    try:
        owner = json.loads((folder / RESULT_MARK).read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return owner if isinstance(owner, str) and owner.startswith("job_") else None
