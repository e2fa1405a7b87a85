"""Begins, finds, lists and ends sessions."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlmodel import Session, col, delete, select

from redkiln.views.access.session import SessionView
from service.database import database_now, read_now
from service.errors import Forbidden, NotFound
from service.ids import new_id
from service.keys.caller import Caller
from service.keys.models import ApiKey
from service.sessions.models import WebSession

_MOST_AGENT_CHARS = 200


@dataclass(frozen=True)
class Begun:
    """A new session.

    Attributes:
        secret: Value of its cookie, which exists nowhere else.
    """

    secret: str
    expires_at: datetime


def begin(session: Session, key: Caller, *, user_agent: str, seconds: float) -> Begun:
    """Begin a session of a key's owner.

    Raises:
        Forbidden: It is a worker's key.
    """
    if key.scope == "worker":
        message = "a worker's key cannot log in; use a key with scope user, scripts or admin"
        raise Forbidden(message, code="wrong_scope")
    secret = secrets.token_urlsafe(32)
    now = read_now(session)
    expires_at = now + timedelta(seconds=seconds)
    session.add(
        WebSession(
            id=new_id("ses"),
            secret_sha256=hash_cookie(secret),
            key_id=key.id,
            user_agent=user_agent[:_MOST_AGENT_CHARS],
            created_at=now,
            last_seen_at=now,
            expires_at=expires_at,
        )
    )
    return Begun(secret, expires_at)


def hash_cookie(secret: str) -> str:
    """Return a cookie's digest: 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def csrf_token(secret: str) -> str:
    """Return the token that belongs to a cookie; only the session's own page can read it."""
    return hashlib.sha256(f"csrf:{secret}".encode()).hexdigest()


def list_sessions(session: Session, caller: Caller, *, secret: str | None) -> Sequence[SessionView]:
    """Return the valid sessions, newest first: an admin sees all, others those of their key."""
    statement = (
        select(WebSession, ApiKey)
        .join(ApiKey, col(ApiKey.id) == col(WebSession.key_id))
        .where(col(WebSession.expires_at) > database_now(), col(ApiKey.revoked_at).is_(None))
        .order_by(col(WebSession.id).desc())
    )
    if caller.scope != "admin":
        statement = statement.where(WebSession.key_id == caller.id)
    own = None if secret is None else hash_cookie(secret)
    return [
        SessionView(
            **row.model_dump(exclude={"secret_sha256"}),
            key_name=key.name,
            scope=key.scope,
            is_current=row.secret_sha256 == own,
        )
        for row, key in session.exec(statement)
    ]


def end(session: Session, secret: str) -> None:
    """End the session of a cookie, if it still exists."""
    digest = hash_cookie(secret)
    session.exec(delete(WebSession).where(col(WebSession.secret_sha256) == digest))


def end_by_id(session: Session, session_id: str, caller: Caller) -> None:
    """End a session: an admin any, others one of their key.

    Raises:
        NotFound: There is no such session, or it belongs to another key.
    """
    row = session.get(WebSession, session_id)
    if row is None or (caller.scope != "admin" and row.key_id != caller.id):
        raise NotFound(f"there is no session {session_id!r}")
    session.delete(row)


def end_all(session: Session, caller: Caller) -> None:
    """End all sessions of a caller's key, the present one included."""
    session.exec(delete(WebSession).where(col(WebSession.key_id) == caller.id))


def forget_expired(session: Session) -> None:
    """Delete the rows of sessions that have expired, or whose key is revoked."""
    revoked = sa.select(col(ApiKey.id)).where(col(ApiKey.revoked_at).is_not(None))
    session.exec(
        delete(WebSession).where(
            sa.or_(
                col(WebSession.expires_at) <= database_now(), col(WebSession.key_id).in_(revoked)
            )
        )
    )
