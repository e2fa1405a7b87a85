"""The container that runs first: creates what the others share, once, and exits.

    python -m docker.init

It writes the queue's password to the volume that only Redis, service and worker mount, each file
readable only by its user, and gives Redis's volume to Redis's user. It runs as root with only
CAP_CHOWN and without a network. A second run changes nothing.
"""

import hashlib
import os
import secrets
import sys
from pathlib import Path

from docker.user import REDIS_GID, REDIS_UID, REDKILN_GID, REDKILN_UID

SECRETS = Path("/secrets")
REDIS_DATA = Path("/redis")

REDIS_CONFIG = "redis.conf"
REDIS_PASSWORD = "redis.password"  # noqa: S105  a file's name
BROKER_URL = "broker.url"
KEYS = "keys"


def main() -> int:
    """Prepare both volumes."""
    prepare_secrets(SECRETS)
    os.chown(REDIS_DATA, REDIS_UID, REDIS_GID)
    return 0


def prepare_secrets(folder: Path) -> bool:
    """Write the secrets unless they exist; return whether they were written.

    The broker's URL is written last, so an interrupted run leaves none and is repeated.
    """
    keys = folder / KEYS  # where the service writes the worker key
    if not keys.exists():
        keys.mkdir(mode=0o700)
        os.chown(keys, REDKILN_UID, REDKILN_GID)
    if (folder / BROKER_URL).exists():
        return False
    password = secrets.token_hex(32)
    write_for(REDIS_UID, REDIS_GID, folder / REDIS_CONFIG, render_config(password))
    write_for(REDIS_UID, REDIS_GID, folder / REDIS_PASSWORD, password)
    url = f"redis://:{password}@redis:6379/0\n"
    write_for(REDKILN_UID, REDKILN_GID, folder / BROKER_URL, url)
    return True


def render_config(password: str) -> str:
    """Return Redis's configuration: one user, who cannot administer or empty it."""
    digest = hashlib.sha256(password.encode()).hexdigest()
    rights = "~* &* +@all -@admin -@dangerous +info"
    return f"user default on #{digest} {rights}\n"


def write_for(uid: int, gid: int, path: Path, text: str) -> None:
    """Write a file that only its owner can read, completely or not at all."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.chown(part, uid, gid)
    part.rename(path)


if __name__ == "__main__":
    sys.exit(main())
