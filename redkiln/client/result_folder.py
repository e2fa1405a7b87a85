"""The folder of a job's results: which job owns it, and where each artifact goes."""

import json
from pathlib import Path

from redkiln.errors import TransferError
from redkiln.protocol import RESULT_MARK, check_artifact_name


def place_artifact(folder: Path, name: str) -> Path:
    """Return the path of an artifact; its name may contain folders but never leads outside.

    Args:
        folder: Folder of the results.
        name: Name of the artifact, as given by the service.

    Raises:
        TransferError: The name is not one that a service of this version would give.
    """
    try:
        check_artifact_name(name)
    except ValueError as error:
        raise TransferError(
            f"{name!r} cannot be used as a file name here; nothing was written: {error}"
        ) from error
    return folder / name


def find_owner(folder: Path) -> str | None:
    """Return the id of the job whose results a folder holds, or None."""
    try:
        owner = json.loads((folder / RESULT_MARK).read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return owner if isinstance(owner, str) and owner.startswith("job_") else None
