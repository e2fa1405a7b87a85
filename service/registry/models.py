"""The tables of registered models, their versions and their aliases."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime
from service.keys.caller import DEFAULT_PROJECT


class RegistryModel(SQLModel, table=True):
    """A registered model.

    Attributes:
        project: Project that owns it, that of the job of its first version.
        last_version: Highest number ever given, so that none is used twice.
    """

    __tablename__ = "registered_model"

    name: str = Field(primary_key=True)
    project: str = Field(
        default=DEFAULT_PROJECT, sa_column_kwargs={"server_default": DEFAULT_PROJECT}
    )
    last_version: int = 0
    created_at: datetime = Field(sa_type=UtcDateTime)


class RegistryVersion(SQLModel, table=True):
    """A version: one published file of a job.

    Attributes:
        dataset_fingerprint: sha256 of the job's data set, or the name of a built-in one.
    """

    __tablename__ = "model_version"

    name: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    job_id: str = Field(index=True)
    artifact_id: str
    description: str = ""
    dataset_fingerprint: str | None = None
    created_at: datetime = Field(sa_type=UtcDateTime)


class RegistryAlias(SQLModel, table=True):
    """A name for one version of a model."""

    __tablename__ = "model_alias"

    name: str = Field(primary_key=True)
    alias: str = Field(primary_key=True)
    version: int
    moved_at: datetime = Field(sa_type=UtcDateTime)


VERSION: sa.Table = RegistryVersion.__table__  # type: ignore[attr-defined]
