"""Fetches public data sets over the network, file by file, and verifies each file.

A mirror is an address below which files are stored as `<set>/<file>`. Mirrors are tried before a
set's own sources. Files that somebody put into the folder by hand are used if their digests match.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from worker.agent.data.transfer import CHUNK_BYTES, TooLong, fetch_once, hash_file
from worker.agent.stopping import StopSignal

TIMEOUT = httpx.Timeout(30.0, connect=10.0)


@dataclass(frozen=True)
class PublicFile:
    """One file of a public data set."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class PublicSet:
    """A public data set.

    Attributes:
        files: All of its files.
        sources: Addresses below which each file is stored under its name.
    """

    files: tuple[PublicFile, ...]
    sources: tuple[str, ...]


PUBLIC_SETS: dict[str, PublicSet] = {
    "mnist": PublicSet(
        files=(
            PublicFile(
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                9_912_422,
            ),
            PublicFile(
                "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                28_881,
            ),
            PublicFile(
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                1_648_877,
            ),
            PublicFile(
                "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                4_542,
            ),
        ),
        sources=(
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
    ),
    "fashion-mnist": PublicSet(
        files=(
            PublicFile(
                "train-images-idx3-ubyte.gz",
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                26_421_880,
            ),
            PublicFile(
                "train-labels-idx1-ubyte.gz",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                29_515,
            ),
            PublicFile(
                "t10k-images-idx3-ubyte.gz",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                4_422_102,
            ),
            PublicFile(
                "t10k-labels-idx1-ubyte.gz",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                5_148,
            ),
        ),
        sources=(
            "https://fashion-mnist.s3.eu-central-1.amazonaws.com",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        ),
    ),
    # The binary version: the Python version consists of pickles, which can run arbitrary code.
    "cifar-10": PublicSet(
        files=(
            PublicFile(
                "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                170_052_171,
            ),
        ),
        sources=("https://www.cs.toronto.edu/~kriz",),
    ),
}


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


def find_public_set(name: str, sets: Mapping[str, PublicSet] = PUBLIC_SETS) -> PublicSet | None:
    """Return the public set with a built-in data set's name; None if the worker generates it."""
    return sets.get(name.removeprefix("builtin:"))
