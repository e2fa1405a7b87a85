"""The token of an attempt: made from its id and fence, so that a repeated claim gets the same one.

`rt_<fence>_<mac>`: the fence is readable, because a write is conditional on it; the MAC says that
we gave it out. Nothing of it is stored but the secret.
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
    """The token of an attempt."""
    return f"rt_{fence}_{_mac(secret, attempt_id, fence)}"


def check_token(secret: bytes, attempt_id: str, token: str) -> int:
    """The fence of a token that belongs to the attempt.

    Raises:
        Unauthorized: it is no token of this attempt.
    """
    match = _TOKEN.fullmatch(token)
    if match is not None:
        fence = int(match[1])
        if hmac.compare_digest(match[2], _mac(secret, attempt_id, fence)):
            return fence
    raise Unauthorized("the token does not belong to this attempt", code="bad_attempt_token")


def load_secret(path: Path) -> bytes:
    """The service's secret, made at its first start and readable by its owner alone.

    Raises:
        OSError: it can be neither read nor made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    create_private(path, f"{secrets.token_hex(32)}\n")
    return bytes.fromhex(path.read_text().strip())


def _mac(secret: bytes, attempt_id: str, fence: int) -> str:
    return hmac.new(secret, f"{attempt_id}:{fence}".encode(), hashlib.sha256).hexdigest()
