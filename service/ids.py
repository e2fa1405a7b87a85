"""Ids: a prefix for the kind, then characters that sort by time of creation."""

import secrets
import threading
import time
from typing import Literal

Prefix = Literal[
    "job", "att", "ds", "art", "ckpt", "wrk", "key", "req", "ses", "upl", "note", "aud"
]

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
_TIME_CHARS = 12  # 60 bits of microseconds
_RANDOM_CHARS = 10  # 50 bits, so that two services never make the same id

_lock = threading.Lock()
_last_us = 0


def new_id(prefix: Prefix) -> str:
    """Return a new id; ids of one process sort strictly in order of creation."""
    return (
        f"{prefix}_{_encode(_next_us(), _TIME_CHARS)}{_encode(secrets.randbits(50), _RANDOM_CHARS)}"
    )


def created_us(id_: str) -> int:
    """Return the time at which an id was made, in microseconds since 1970.

    Raises:
        ValueError: The text is not an id.
    """
    chars = id_.partition("_")[2][:_TIME_CHARS]
    if len(chars) < _TIME_CHARS or not set(chars) <= set(_ALPHABET):
        raise ValueError(f"{id_!r} is not an id")
    value = 0
    for char in chars:
        value = value << 5 | _ALPHABET.index(char)
    return value


def _next_us() -> int:
    global _last_us
    with _lock:
        _last_us = max(time.time_ns() // 1000, _last_us + 1)
        return _last_us


def _encode(value: int, length: int) -> str:
    return "".join(_ALPHABET[(value >> shift) & 31] for shift in range((length - 1) * 5, -1, -5))
