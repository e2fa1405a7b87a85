"""The token of an attempt, derived from its id and fence: a repeated claim gets the same one.

`rt_<fence>_<mac>`: the fence is readable because writes are conditional on it; the MAC proves that
this service issued the token. Only the secret is stored.
"""

import hashlib
import hmac
import re
import secrets
from pathlib import Path

from service.errors import Unauthorized
from service.keys.first import create_private

_TOKEN = re.compile(r"rt_(\d{1,9})_([0-9a-f]{64})", re.ASCII)


def make_token(secret: bytes, attempt_id: str, *, fence: int) -> str:
    """Return the token of an attempt."""
    return f"rt_{fence}_{_mac(secret, attempt_id, fence)}"


def check_token(secret: bytes, attempt_id: str, token: str) -> int:
    """Return the fence of a token that belongs to the attempt.

    Raises:
        Unauthorized: The token does not belong to this attempt.
    """
    match = _TOKEN.fullmatch(token)
    if match is not None:
        fence = int(match[1])
        if hmac.compare_digest(match[2], _mac(secret, attempt_id, fence)):
            return fence
    raise Unauthorized("the token does not belong to this attempt", code="bad_attempt_token")


def load_secret(path: Path) -> bytes:
    """Return the service's secret, created at the first start and readable only by its owner.

    Raises:
        OSError: The file cannot be read or created.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    create_private(path, f"{secrets.token_hex(32)}\n")
    return bytes.fromhex(path.read_text().strip())


def _mac(secret: bytes, attempt_id: str, fence: int) -> str:
    return hmac.new(secret, f"{attempt_id}:{fence}".encode(), hashlib.sha256).hexdigest()
