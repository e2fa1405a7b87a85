"""Decides which projects' things a caller sees.

One check, `check_owner`, covers every id in a path; ids in a body are checked where they are looked
up. Lists ask for `Seen`.
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlmodel import col

from service.artifacts.models import Artifact
from service.database import Database
from service.datasets.models import Dataset
from service.errors import NotFound
from service.jobs.models import JOB
from service.keys.caller import Caller
from service.registry.models import RegistryModel
from service.uploads.models import Upload

SHARED = ""
"""Project of the built-in data sets, which everybody sees."""

_OF: sa.BindParameter[str] = sa.bindparam("of")
_OWNERS: dict[str, tuple[str, sa.Select[Any]]] = {
    "job_id": ("job", sa.select(JOB.c.project).where(JOB.c.id == _OF)),
    "dataset_id": ("data set", sa.select(col(Dataset.project)).where(col(Dataset.id) == _OF)),
    "artifact_id": (
        "artifact",
        sa.select(JOB.c.project)
        .join(Artifact, col(Artifact.job_id) == JOB.c.id)
        .where(col(Artifact.id) == _OF),
    ),
    "upload_id": ("upload", sa.select(col(Upload.project)).where(col(Upload.id) == _OF)),
    "name": ("model", sa.select(col(RegistryModel.project)).where(col(RegistryModel.name) == _OF)),
}
"""What each parameter of a path names, and how to find its project."""
_MORE = {
    "job": "; GET /v1/jobs lists the jobs with their ids",
    "data set": "; GET /v1/datasets lists the data sets",
    "artifact": "; GET /v1/jobs/{job_id}/artifacts lists those of a job",
    "upload": ": it was finished, cancelled, or has expired; begin again with POST /v1/uploads",
    "model": "; register one: POST /v1/models",
}
"""Ends of answers. They are those to an id that does not exist: nobody learns which ids do."""


def has_owner(parameter: str) -> bool:
    """Return whether a parameter of a path names something that a project owns."""
    return parameter in _OWNERS


def check_owner(database: Database, caller: Caller, named: Mapping[str, Any]) -> None:
    """Check that a caller may see all that a request names.

    Args:
        database: Database to look in.
        caller: Sender of the request.
        named: Parameters of the request's path; those without an owner are ignored.

    Raises:
        NotFound: One of them belongs to another project.
    """
    if caller.sees is None:
        return
    for parameter, value in named.items():
        if parameter not in _OWNERS:
            continue
        kind, statement = _OWNERS[parameter]
        rows = database.execute_read(statement, {"of": value})
        if rows and rows[0][0] not in (caller.sees, SHARED):
            raise NotFound(f"there is no {kind} {value!r}{_MORE.get(kind, '')}")


def belongs_to(column: Any, project: str | None) -> sa.ColumnElement[bool]:
    """Return the condition that a row is one of a project's, or shared; None: any row."""
    found: sa.ColumnElement[bool] = sa.true() if project is None else column.in_((project, SHARED))
    return found
