"""Downloads that are checked against their sha256 and go on where they were cut."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from worker.agent.backoff import Backoff
from worker.agent.client import ServiceAway
from worker.agent.stopping import StopSignal

CHUNK_BYTES = 1024 * 1024

Opener = Callable[[int], AbstractContextManager[tuple[int, Iterator[bytes]]]]
"""Opens a download from an offset on; answers with the offset that it was granted."""


class WrongDigest(Exception):  # noqa: N818  # reads as what it is
    """What was sent is not what was asked for, twice."""


def fetch_file(
    open_download: Opener,
    target: Path,
    *,
    sha256: str,
    stop: StopSignal,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> None:
    """Download to `target`, going on with what is there, until its digest is right.

    While the service is away it waits and goes on.

    Raises:
        Stopped: the attempt was asked to stop; what came so far stays.
        WrongDigest: the bytes are wrong even from a fresh start.
        ServiceError: the service refused.
        OSError: the disk is full.
    """
    backoff = Backoff()
    fresh_starts = 0
    while True:
        try:
            digest = fetch_once(open_download, target, stop=stop, on_bytes=on_bytes)
        except ServiceAway:
            stop.wait(backoff.next_seconds())
            continue
        if digest == sha256:
            return
        target.unlink()
        fresh_starts += 1
        if fresh_starts > 1:
            raise WrongDigest(f"expected sha256 {sha256}, got {digest}")


def fetch_once(
    open_download: Opener,
    target: Path,
    *,
    stop: StopSignal,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> str:
    """Download to `target`, going on with what is there; the sha256 of all of it."""
    stop.check()
    start = target.stat().st_size if target.exists() else 0
    with open_download(start) as (granted, chunks), target.open("ab") as file:
        file.truncate(granted)
        file.flush()
        digest = hash_file(target)
        size = granted
        for chunk in chunks:
            stop.check()
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            on_bytes(size)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def hash_file(path: Path) -> "hashlib._Hash":
    """The running sha256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest
