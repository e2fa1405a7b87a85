"""The table of uploads in parts."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime
from service.keys.caller import DEFAULT_PROJECT


class Upload(SQLModel, table=True):
    """An upload that has begun and has not become a data set.

    Attributes:
        name: Name of the data set.
        project: Project that owns it.
        sha256: Digest of the whole content, as the client announced it.
        part_bytes: Size of every part except the last.
        seed: Random seed of the data set's splits.
        options: The table options that the user set (`redkiln.tables.TableOptions`).
    """

    __tablename__ = "upload"

    id: str = Field(primary_key=True)
    name: str
    project: str = Field(
        default=DEFAULT_PROJECT, sa_column_kwargs={"server_default": DEFAULT_PROJECT}
    )
    sha256: str = Field(index=True)
    size_bytes: int = Field(sa_type=sa.BigInteger)
    part_bytes: int
    seed: int = 0
    options: dict[str, Any] = Field(default_factory=dict, sa_type=sa.JSON)
    created_at: datetime = Field(sa_type=UtcDateTime)

    @property
    def num_parts(self) -> int:
        """Number of parts."""
        return -(-self.size_bytes // self.part_bytes)

    def bytes_of(self, number: int) -> int:
        """Return the size of a part.

        Args:
            number: Number of the part, counted from 0.
        """
        return min(self.part_bytes, self.size_bytes - number * self.part_bytes)
