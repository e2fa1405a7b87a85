"""The table of API keys."""

from datetime import datetime

from sqlmodel import Field, SQLModel

from service.database import UtcDateTime
from service.keys.caller import DEFAULT_PROJECT


class ApiKey(SQLModel, table=True):
    """An API key without its secret.

    Attributes:
        project: Project whose things the key sees, unless it is an admin's.
        secret_sha256: Digest of the whole key.
        scope: A `service.keys.caller.KeyScope`.
        last_used_at: Last request with the key or one of its sessions, exact to a minute.
    """

    __tablename__ = "api_key"

    id: str = Field(primary_key=True)
    name: str
    scope: str
    project: str = Field(
        default=DEFAULT_PROJECT, sa_column_kwargs={"server_default": DEFAULT_PROJECT}
    )
    secret_sha256: str
    created_at: datetime = Field(sa_type=UtcDateTime)
    revoked_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
    last_used_at: datetime | None = Field(default=None, sa_type=UtcDateTime)
