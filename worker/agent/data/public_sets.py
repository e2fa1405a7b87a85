"""Fetches public data sets over the network, file by file, and verifies each file.

A mirror is an address below which files are stored as `<set>/<file>`. Mirrors are tried before a
set's own sources. Files that somebody put into the folder by hand are used if their digests match.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from redkiln.public_sets import PublicFile, PublicSet
from worker.agent.data.transfer import CHUNK_BYTES, TooLong, fetch_once, hash_file
from worker.agent.stopping import StopSignal

TIMEOUT = httpx.Timeout(30.0, connect=10.0)


class NotFetched(Exception):  # noqa: N818  # the name states the fault
    """No address provides a file; the message says where to put it by hand."""


def fetch_public_set(
    name: str,
    public: PublicSet,
    folder: Path,
    *,
    mirrors: Sequence[str],
    stop: StopSignal,
    say: Callable[[str], None],
) -> None:
    """Fetch a set's missing files into a folder, resuming from the bytes already there.

    Raises:
        NotFetched: No address provides a file, or all of them send wrong bytes.
        Stopped: The attempt was asked to stop; the bytes received so far are kept.
        OSError: The disk is full.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for file in public.files:
        target = folder / file.name
        if target.exists() and _is_right(target, file):
            continue
        say(f"fetching {file.name} of {name} ({file.size_bytes / 1e6:.1f} MB)")
        addresses = [
            *(f"{mirror}/{name}/{file.name}" for mirror in mirrors),
            *(f"{source}/{file.name}" for source in public.sources),
        ]
        _fetch(file, target, addresses, stop=stop)


def _is_right(path: Path, file: PublicFile) -> bool:
    return hash_file(path).hexdigest() == file.sha256


def _fetch(file: PublicFile, target: Path, addresses: Sequence[str], *, stop: StopSignal) -> None:
    part = target.with_name(f"{target.name}.part")
    failures: dict[str, str] = {}
    for address in addresses:
        try:
            open_download = partial(_open, address)
            digest = fetch_once(open_download, part, stop=stop, most_bytes=file.size_bytes)
        except TooLong as error:
            part.unlink()
            failures[address] = str(error)
            continue
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failures[address] = f"{type(error).__name__}: {error}"[:200]
            continue
        if digest == file.sha256:
            part.replace(target)
            return
        part.unlink()
        failures[address] = f"sent wrong bytes (sha256 {digest[:12]}...)"
    tried = "; ".join(f"{address}: {why}" for address, why in failures.items())
    message = (
        f"{file.name} could not be fetched ({tried}). Put the file (sha256 {file.sha256}) into "
        f"{target.parent} on the worker, or add a mirror to REDKILN_DATASET_MIRRORS"
    )
    raise NotFetched(message)


@contextmanager
def _open(url: str, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
    headers = {"Range": f"bytes={start}-"} if start else {}
    with httpx.stream(
        "GET", url, headers=headers, timeout=TIMEOUT, follow_redirects=True
    ) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            yield start, iter(())  # the file is complete, or it is wrong and will be fetched again
            return
        response.raise_for_status()
        granted = start if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
        # Raw bytes: the transport must not decompress a file that is itself compressed.
        yield granted, response.iter_raw(CHUNK_BYTES)
