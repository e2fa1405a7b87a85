"""Finds the caller of a key, and caches it for a few seconds."""

import hmac
import threading
import time
from collections.abc import Callable
from typing import cast

import sqlalchemy as sa
from sqlmodel import col

from service.database import Database
from service.errors import Unauthorized
from service.keys.caller import Caller, KeyScope
from service.keys.models import ApiKey
from service.keys.secret import hash_secret, parse_key_id
from service.keys.uses import NOTE_KEY, Uses

CACHE_SECONDS = 5.0
"""How long a key may keep working after another service process has revoked it."""
_CAPACITY = 10_000

_BY_ID = sa.select(col(ApiKey.secret_sha256), col(ApiKey.scope), col(ApiKey.project)).where(
    col(ApiKey.id) == sa.bindparam("key_id"), col(ApiKey.revoked_at).is_(None)
)


class KeyRing:
    """Checks keys.

    Args:
        database: Database with the hashes of the keys.
        clock: Monotonic clock in seconds.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._uses = Uses(database, NOTE_KEY, clock=clock)
        self._known: dict[str, tuple[float, Caller]] = {}
        self._lock = threading.Lock()

    def recall(self, secret: str) -> Caller | None:
        """Return the cached caller of a recently checked key, without a database query."""
        known = self._known.get(hash_secret(secret))
        return known[1] if known is not None and known[0] > self._clock() else None

    def look_up(self, secret: str) -> Caller:
        """Return the caller that a key belongs to.

        Raises:
            Unauthorized: The key is unknown or revoked.
        """
        key_id = parse_key_id(secret)
        digest = hash_secret(secret)
        rows = [] if key_id is None else self._database.execute_read(_BY_ID, {"key_id": key_id})
        if key_id is None or not rows or not hmac.compare_digest(rows[0].secret_sha256, digest):
            raise Unauthorized("this key is unknown or revoked", code="bad_key")
        caller = Caller(key_id, cast("KeyScope", rows[0].scope), rows[0].project)
        with self._lock:
            if len(self._known) >= _CAPACITY:
                self._known.clear()
            self._known[digest] = (self._clock() + CACHE_SECONDS, caller)
        self._uses.note(of_key=key_id)
        return caller

    def forget(self) -> None:
        """Empty the cache because a key was revoked."""
        with self._lock:
            self._known.clear()
