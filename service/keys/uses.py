"""Notes when keys and sessions were last used, exact to a minute."""

import threading
import time
from collections.abc import Callable

import sqlalchemy as sa
import structlog
from sqlmodel import col

from service.database import Database, database_now
from service.errors import ServiceError
from service.keys.models import ApiKey

EXACT_SECONDS = 60.0
"""How exact the times are; each request would otherwise write."""
_CAPACITY = 10_000

NOTE_KEY = (
    sa.update(ApiKey)
    .where(col(ApiKey.id) == sa.bindparam("of_key"))
    .values(last_used_at=database_now())
)

log = structlog.get_logger(__name__)


class Uses:
    """Writes the time of a use, at most once a minute for each user.

    Args:
        database: Database with the keys and sessions.
        updates: Statements that write it, with the parameters of `note`.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        database: Database,
        *updates: sa.Update,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._updates = updates
        self._clock = clock
        self._noted_at: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def note(self, **user: str) -> None:
        """Write that this user made a request now, unless that was written a moment ago."""
        if self._is_due(tuple(user.values())):
            try:
                self._database.write(
                    lambda session: [session.execute(update, user) for update in self._updates]
                )
            except ServiceError as error:  # a full disk must not log anybody out
                log.warning("use_not_noted", cause=error.detail)

    def _is_due(self, user: tuple[str, ...]) -> bool:
        now = self._clock()
        with self._lock:
            if now - self._noted_at.get(user, -EXACT_SECONDS) < EXACT_SECONDS:
                return False
            if len(self._noted_at) >= _CAPACITY:
                self._noted_at.clear()
            self._noted_at[user] = now
            return True
