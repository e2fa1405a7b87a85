"""Fetches the files of public data sets, to score models on them without a worker."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import httpx

from redkiln.errors import TransferError
from redkiln.public_sets import PUBLIC_SETS, PublicFile

TIMEOUT = httpx.Timeout(30.0, connect=10.0)


def fetch_public_set(name: str, *, say: Callable[[str], None]) -> Path:
    """Return the folder with the files of a public set; missing ones are downloaded into it.

    Files that somebody put there by hand are used if their sha256 is right.

    Args:
        name: Name of the set, without `builtin:`.
        say: Called with a sentence for each download.

    Raises:
        TransferError: No address provides a file.
        OSError: The disk is full.
    """
    from redkiln.predict.places import cache_folder

    public = PUBLIC_SETS[name]
    folder = cache_folder("datasets") / name
    folder.mkdir(parents=True, exist_ok=True)
    for file in public.files:
        target = folder / file.name
        if target.is_file() and _hash(target) == file.sha256:
            continue
        say(f"fetching {file.name} of {name} ({file.size_bytes / 1e6:.1f} MB)")
        _fetch(file, target, [f"{source}/{file.name}" for source in public.sources])
    return folder


def _fetch(file: PublicFile, target: Path, addresses: list[str]) -> None:
    part = target.with_name(f"{target.name}.part")
    failures = []
    for address in addresses:
        try:
            _download(address, part, most_bytes=file.size_bytes)
        except (httpx.HTTPError, TransferError) as error:
            failures.append(f"{address}: {type(error).__name__}: {error}"[:300])
            continue
        if _hash(part) == file.sha256:
            part.replace(target)
            return
        failures.append(f"{address}: sent wrong bytes")
    part.unlink(missing_ok=True)
    raise TransferError(
        f"{file.name} could not be fetched ({'; '.join(failures)}). Put the file (sha256 "
        f"{file.sha256}) into {target.parent}, or omit `--data` to check the model with the test "
        "samples in parity.npz."
    )


def _download(address: str, part: Path, *, most_bytes: int) -> None:
    size = 0
    with (
        httpx.stream("GET", address, timeout=TIMEOUT, follow_redirects=True) as response,
        part.open("wb") as file,
    ):
        response.raise_for_status()
        # Raw bytes: the transport must not decompress a file that is itself compressed.
        for chunk in response.iter_raw():
            size += len(chunk)
            if size > most_bytes:
                raise TransferError(f"it sends more than {most_bytes} bytes")
            file.write(chunk)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
