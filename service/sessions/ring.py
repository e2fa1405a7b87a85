"""Finds the caller of a session's cookie, and caches it for a few seconds."""

import threading
import time
from collections.abc import Callable
from typing import cast

import sqlalchemy as sa
from sqlmodel import col

from service.database import Database, database_now
from service.errors import Unauthorized
from service.keys.caller import Caller, KeyScope
from service.keys.models import ApiKey
from service.keys.ring import CACHE_SECONDS
from service.keys.uses import NOTE_KEY, Uses
from service.sessions.models import WEB_SESSION
from service.sessions.rules import hash_cookie

_CAPACITY = 10_000

_BY_DIGEST = (
    sa.select(WEB_SESSION.c.key_id, col(ApiKey.scope), col(ApiKey.project))
    .join(ApiKey, col(ApiKey.id) == WEB_SESSION.c.key_id)
    .where(
        WEB_SESSION.c.secret_sha256 == sa.bindparam("digest"),
        WEB_SESSION.c.expires_at > database_now(),
        col(ApiKey.revoked_at).is_(None),
    )
)
_SEE = (
    sa.update(WEB_SESSION)
    .where(WEB_SESSION.c.secret_sha256 == sa.bindparam("of_digest"))
    .values(last_seen_at=database_now())
)


class SessionRing:
    """Checks cookies of sessions.

    Args:
        database: Database with the digests of the cookies.
        clock: Monotonic clock in seconds.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, tuple[float, Caller]] = {}
        self._uses = Uses(database, _SEE, NOTE_KEY, clock=clock)
        self._lock = threading.Lock()

    def recall(self, secret: str) -> Caller | None:
        """Return the cached caller of a recently checked cookie, without a database query."""
        known = self._known.get(hash_cookie(secret))
        return known[1] if known is not None and known[0] > self._clock() else None

    def look_up(self, secret: str) -> Caller:
        """Return the caller that a cookie belongs to.

        Raises:
            Unauthorized: The session has expired, was ended, or its key is revoked.
        """
        digest = hash_cookie(secret)
        rows = self._database.execute_read(_BY_DIGEST, {"digest": digest})
        if not rows:
            message = "the session has expired or was ended; log in again"
            raise Unauthorized(message, code="session_expired")
        caller = Caller(rows[0].key_id, cast("KeyScope", rows[0].scope), rows[0].project)
        with self._lock:
            if len(self._known) >= _CAPACITY:
                self._known.clear()
            self._known[digest] = (self._clock() + CACHE_SECONDS, caller)
        self._uses.note(of_digest=digest, of_key=caller.id)
        return caller

    def forget(self) -> None:
        """Empty the cache because a session was ended or a key revoked."""
        with self._lock:
            self._known.clear()
