"""The table of sessions."""

from datetime import datetime

import sqlalchemy as sa
from sqlmodel import Field, SQLModel

from service.database import UtcDateTime


class WebSession(SQLModel, table=True):
    """A session that has not been ended; its cookie is stored only as a digest.

    Attributes:
        key_id: Key that was used to log in; the session ends when the key is revoked.
        last_seen_at: Time of the last request, to the minute.
        user_agent: Name that the browser gives itself.
    """

    __tablename__ = "web_session"

    id: str = Field(primary_key=True)
    secret_sha256: str = Field(unique=True, index=True)
    key_id: str = Field(index=True)
    user_agent: str
    created_at: datetime = Field(sa_type=UtcDateTime)
    last_seen_at: datetime = Field(sa_type=UtcDateTime)
    expires_at: datetime = Field(sa_type=UtcDateTime)


WEB_SESSION: sa.Table = WebSession.__table__  # type: ignore[attr-defined]
