"""Decides which projects' things a caller sees.

One check covers every path: `check_owner` looks at the ids in it. Lists ask for `Seen`.
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
_NO_UPLOAD = (
    "there is no upload {!r}: it was finished, cancelled, or has expired; begin again with "
    "POST /v1/uploads"
)
_OWNERS: dict[str, tuple[sa.Select[Any], str]] = {
    "job_id": (sa.select(JOB.c.project).where(JOB.c.id == _OF), "there is no job {!r}"),
    "dataset_id": (
        sa.select(col(Dataset.project)).where(col(Dataset.id) == _OF),
        "there is no data set {!r}",
    ),
    "artifact_id": (
        sa.select(JOB.c.project)
        .join(Artifact, col(Artifact.job_id) == JOB.c.id)
        .where(col(Artifact.id) == _OF),
        "there is no artifact {!r}",
    ),
    "upload_id": (
        sa.select(col(Upload.project)).where(col(Upload.id) == _OF),
        _NO_UPLOAD,
    ),
    "name": (
        sa.select(col(RegistryModel.project)).where(col(RegistryModel.name) == _OF),
        "there is no model {!r}; register one: POST /v1/models",
    ),
}
"""For each parameter of a path: how to find the project, and the answer if it is another's.

It is the answer to an id that does not exist, so that nobody learns which ids do.
"""


def has_owner(parameter: str) -> bool:
    """Return whether a parameter of a path names something that a project owns."""
    return parameter in _OWNERS


def check_owner(database: Database, caller: Caller, named: Mapping[str, Any]) -> None:
    """Check that a caller may see all that a request names.

    Args:
        database: Database to look in.
        caller: Who sends the request.
        named: Parameters of the request's path; those without an owner are ignored.

    Raises:
        NotFound: One of them belongs to another project.
    """
    if caller.sees is None:
        return
    for parameter, value in named.items():
        if parameter not in _OWNERS:
            continue
        statement, answer = _OWNERS[parameter]
        rows = database.execute_read(statement, {"of": value})
        if rows and rows[0][0] not in (caller.sees, SHARED):
            raise NotFound(answer.format(value))


def belongs_to(column: Any, project: str | None) -> sa.ColumnElement[bool]:
    """Return the condition that a row is one of a project's, or shared; None: any row."""
    found: sa.ColumnElement[bool] = sa.true() if project is None else column.in_((project, SHARED))
    return found
