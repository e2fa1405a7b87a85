"""Downloads that are verified by their sha256 and resume after an interruption."""

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
"""Opens a download at an offset; returns the offset at which it actually starts."""


class TooLong(Exception):  # noqa: N818  the name states the fault
    """A sender sends more bytes than the file has."""


class WrongDigest(Exception):  # noqa: N818  # the name states the fault
    """The bytes received were wrong twice."""


def fetch_file(
    open_download: Opener,
    target: Path,
    *,
    sha256: str,
    stop: StopSignal,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> None:
    """Download to `target`, resuming from the bytes already there, until its digest is right.

    While the service is unreachable it waits and then resumes.

    Raises:
        Stopped: The attempt was asked to stop; the bytes received so far are kept.
        WrongDigest: The bytes are wrong even after a second download from the start.
        ServiceError: The service refused.
        OSError: The disk is full.
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
    most_bytes: int | None = None,
) -> str:
    """Download to `target`, resuming from the bytes already there; return the file's sha256.

    Raises:
        TooLong: The sender sends more than `most_bytes`.
    """
    stop.check()
    start = target.stat().st_size if target.exists() else 0
    with open_download(start) as (granted, chunks), target.open("ab") as file:
        file.truncate(granted)
        file.flush()
        digest = hash_file(target)
        size = granted
        for chunk in chunks:
            stop.check()
            size += len(chunk)
            if most_bytes is not None and size > most_bytes:
                raise TooLong(f"sends more than {most_bytes} bytes")
            file.write(chunk)
            digest.update(chunk)
            on_bytes(size)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def hash_file(path: Path) -> "hashlib._Hash":
    """Return a sha256 object that has read the file's content and can be updated further."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest
