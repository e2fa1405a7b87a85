"""API keys, as the API shows them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

PROJECT_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,63}$"
"""Form of a project's name."""


class KeyView(BaseModel):
    """An API key without its secret.

    Attributes:
        project: Project whose jobs, data sets and models the key sees; an admin's sees all.
        last_used_at: Last request with the key or one of its sessions, exact to a minute; None if
            it was never used.
    """

    id: str
    name: str
    scope: Literal["user", "scripts", "worker", "admin"]
    project: str = "default"
    created_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class CreatedKey(KeyView):
    """A new API key; its secret is shown only once."""

    secret: str
