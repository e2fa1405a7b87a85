"""The text of a key: `rk_<id>_<256 random bits>_<CRC-32>`.

The prefix and the checksum let scanners for leaked secrets recognise a key, and let the service
refuse a mistyped key without a database query.
"""

import hashlib
import re
import secrets
import string
import zlib

_ALPHABET = string.digits + string.ascii_letters
_RANDOM_CHARS = 43  # 62^43 > 2^256
_SECRET = re.compile(r"rk_([0-9a-z]{22})_[0-9A-Za-z]{43}_([0-9a-f]{8})", re.ASCII)


def make_secret(key_id: str) -> str:
    """Return a new secret for a key of this id."""
    random = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_CHARS))
    text = f"rk_{key_id.removeprefix('key_')}_{random}"
    return f"{text}_{_checksum(text)}"


def parse_key_id(secret: str) -> str | None:
    """Return the id in a key's text; None if the text is not a key."""
    match = _SECRET.fullmatch(secret)
    if match is None or _checksum(secret[:-9]) != match[2]:
        return None
    return f"key_{match[1]}"


def hash_secret(secret: str) -> str:
    """Return a key's hash: a plain digest suffices, as 256 random bits cannot be guessed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
