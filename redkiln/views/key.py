"""API keys, as the API shows them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel


class KeyView(BaseModel):
    """An API key without its secret."""

    id: str
    name: str
    scope: Literal["user", "scripts", "worker", "admin"]
    created_at: datetime
    revoked_at: datetime | None = None


class CreatedKey(KeyView):
    """A new API key; its secret is shown only once."""

    secret: str
