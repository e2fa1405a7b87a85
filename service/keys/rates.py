"""Limits the requests of each key: a bucket of tokens that refills evenly."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from service.errors import TooManyRequests
from service.keys.caller import Caller

_CAPACITY = 10_000
"""Most keys to remember; a full bucket, which most are, need not be remembered."""


@dataclass
class _Bucket:
    """Requests that a key may still send at once, as of a time."""

    tokens: float
    at: float


class RateLimiter:
    """Refuses requests of a key that sends too many, for the time that its bucket needs.

    A library would bring its own storage and names for one page of arithmetic.

    Args:
        per_second: Requests a second that a key may send for ever.
        burst: Requests that a key may send at once after a rest.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        *,
        per_second: float,
        burst: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def take(self, caller: Caller) -> None:
        """Count one request.

        Raises:
            TooManyRequests: The key has sent too many.
        """
        with self._lock:
            now = self._clock()
            bucket = self._refill(caller.id, now)
            if bucket.tokens < 1:
                wait = math.ceil((1 - bucket.tokens) / self._per_second)
                message = (
                    f"this key sends more than {self._per_second:g} requests a second; wait, and "
                    "send fewer, or ask for REDKILN_REQUESTS_PER_SECOND to be raised"
                )
                raise TooManyRequests(message, code="too_many_requests", retry_after_seconds=wait)
            bucket.tokens -= 1

    def _refill(self, key_id: str, now: float) -> _Bucket:
        bucket = self._buckets.get(key_id)
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets[key_id] = _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._per_second)
        bucket.at = now
        return bucket

    def _make_room(self, now: float) -> None:
        """Forget the full buckets if there are many: a new one is full, too."""
        if len(self._buckets) < _CAPACITY:
            return
        needed = self._burst / self._per_second
        self._buckets = {
            key: bucket for key, bucket in self._buckets.items() if now - bucket.at < needed
        }
