"""The keys that a service makes for itself at its first start, in files of their owner alone.

The local CLI finds `admin.key` and the local worker `worker.key`. A removed file is made anew with
a new key; a key that was revoked stays revoked for as long as its file is there.
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

FIRST_KEYS: dict[str, KeyScope] = {"admin": "admin", "worker": "worker"}


def ensure_first_keys(
    database: Database, keys_dir: Path, *, worker_key_file: Path | None = None
) -> None:
    """Make sure that each first key has its file and its row.

    Args:
        database: where they are registered.
        keys_dir: of the files.
        worker_key_file: where workers read theirs, if not in `keys_dir`.

    Raises:
        ValueError: a file holds something else than a key.
        OSError: the folder cannot be written.
    """
    keys_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, scope in FIRST_KEYS.items():
        path = keys_dir / f"{name}.key"
        if name == "worker" and worker_key_file is not None:
            path = worker_key_file
        # The file comes first: after a crash in between, its key only has to be registered.
        create_private(path, f"{make_secret(new_id('key'))}\n")
        register = partial(_register, secret=path.read_text().strip(), name=name, scope=scope)
        database.write(register)


def create_private(path: Path, text: str) -> bool:
    """Write a file that only its owner may read, whole or not at all; False if it is there.

    Raises:
        OSError: the folder cannot be written.
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
        return True
    finally:
        Path(temporary).unlink()


def _register(session: Session, *, secret: str, name: str, scope: KeyScope) -> None:
    key_id = parse_key_id(secret)
    if key_id is None:
        raise ValueError(f"{name}.key does not contain a key; delete it to get a new one")
    if session.get(ApiKey, key_id) is None:
        add_key(session, secret, name=f"first {name} key", scope=scope)
