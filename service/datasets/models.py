"""The table of data sets."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime
from service.keys.caller import DEFAULT_PROJECT


class Dataset(SQLModel, table=True):
    """A registered data set; a deleted one stays as a row, because jobs name it.

    Attributes:
        project: Project that owns it; `service.projects.owners.SHARED` if it is built in.
        status: A `redkiln.views.dataset.DatasetStatus`.
        kind: `archive`, `folder` or `builtin`.
        sha256: Digest of the archive, or of a folder's index; None for built-in sets.
        size_bytes: Size of the archive, or of a folder's indexed files together.
        path: Path of a folder set.
        index_sha256: Digest of the stored `redkiln.datasets.DatasetIndex`, or of a table's Parquet
            file (`redkiln.tables`), once it is ready.
        index_bytes: Size of the index.
        seed: Random seed of the order of samples in their classes, and so of the splits.
        options: The table options that the user set (`redkiln.tables.TableOptions`).
        report: A `service.datasets.inspect.report.InspectionReport`, once it is validated.
    """

    __tablename__ = "dataset"
    __table_args__ = (sa.Index("ix_dataset_name_id", "name", "id"),)

    id: str = Field(primary_key=True)
    name: str
    project: str = Field(
        default=DEFAULT_PROJECT, sa_column_kwargs={"server_default": DEFAULT_PROJECT}
    )
    status: str = Field(index=True)
    kind: str
    task: str | None = None
    sha256: str | None = None
    size_bytes: int | None = Field(default=None, sa_type=sa.BigInteger)
    path: str | None = None
    index_sha256: str | None = None
    index_bytes: int | None = Field(default=None, sa_type=sa.BigInteger)
    seed: int = 0
    options: dict[str, Any] = Field(
        default_factory=dict, sa_type=sa.JSON, sa_column_kwargs={"server_default": "{}"}
    )
    report: dict[str, Any] = Field(default_factory=dict, sa_type=sa.JSON)
    created_at: datetime = Field(sa_type=UtcDateTime)
    validated_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    deleted_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
