"""The keys that a service creates at its first start, in files only their owner can read.

The local CLI finds `admin.key` and the local worker `worker.key`. A deleted file is created again
with a new key; a revoked key stays revoked as long as its file exists.
"""

import os
import tempfile
from functools import partial
from pathlib import Path

from sqlmodel import Session

from service.database import Database
from service.ids import new_id
from service.keys.caller import KeyScope
from service.keys.models import ApiKey
from service.keys.rules import add_key
from service.keys.secret import make_secret, parse_key_id
from service.storage.local import sync_dir

FIRST_KEYS: dict[str, KeyScope] = {"admin": "admin", "worker": "worker"}


def ensure_first_keys(
    database: Database, keys_dir: Path, *, worker_key_file: Path | None = None
) -> None:
    """Make sure that each first key has its file and its row.

    Args:
        database: Database in which they are registered.
        keys_dir: Folder of the key files.
        worker_key_file: File from which workers read their key, if not in `keys_dir`.

    Raises:
        ValueError: A file does not contain a key.
        OSError: The folder cannot be written.
    """
    keys_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, scope in FIRST_KEYS.items():
        path = keys_dir / f"{name}.key"
        if name == "worker" and worker_key_file is not None:
            path = worker_key_file
        # The file is written first: after a crash in between, only its key must be registered.
        create_private(path, f"{make_secret(new_id('key'))}\n")
        register = partial(_register, secret=path.read_text().strip(), name=name, scope=scope)
        database.write(register)


def create_private(path: Path, text: str) -> bool:
    """Write a file that only its owner may read, atomically; return False if it exists.

    Raises:
        OSError: The folder cannot be written.
    """
    if path.exists():
        return False
    fd, temporary = tempfile.mkstemp(dir=path.parent)  # mode 0600
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        sync_dir(path.parent)  # a power failure must not take a key that the database knows
        return True
    finally:
        Path(temporary).unlink()


def _register(session: Session, *, secret: str, name: str, scope: KeyScope) -> None:
    key_id = parse_key_id(secret)
    if key_id is None:
        raise ValueError(f"{name}.key does not contain a key; delete it to get a new one")
    if session.get(ApiKey, key_id) is None:
        add_key(session, secret, name=f"first {name} key", scope=scope)
