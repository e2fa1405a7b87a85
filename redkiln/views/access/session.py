"""A browser's login, as the API shows it."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel


class CallerView(BaseModel):
    """Whose requests these are.

    Attributes:
        key_id: Id of the key that was used to log in; `local` on a service without keys.
        name: Name of the key; empty on a service without keys.
        project: Project of the key, which owns what is created with it.
    """

    key_id: str
    name: str = ""
    scope: Literal["user", "scripts", "worker", "admin"]
    project: str = "default"


class SessionState(BaseModel):
    """Whether a browser is logged in.

    Attributes:
        login_required: Whether the service asks for a key.
        caller: None if a login is needed.
        csrf_token: Value for the header `Redkiln-CSRF` of every request that changes something;
            None without a session.
    """

    login_required: bool
    caller: CallerView | None = None
    csrf_token: str | None = None
    expires_at: datetime | None = None


class SessionView(BaseModel):
    """A session that is valid now.

    Attributes:
        user_agent: Name that the browser gives itself.
        is_current: Whether it is the session of this request.
    """

    id: str
    key_id: str
    key_name: str
    scope: Literal["user", "scripts", "worker", "admin"]
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime
    user_agent: str
    is_current: bool = False
