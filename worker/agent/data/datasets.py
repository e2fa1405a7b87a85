"""Provides an attempt's data set: in place if possible, otherwise from the service's copy."""

import hashlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from redkiln.datasets import stamp_folder
from redkiln.failure import FailureCode, JobFailure
from redkiln.protocol import DatasetRef
from redkiln.public_sets import PUBLIC_SETS, PublicSet, find_public_set
from worker.agent.backoff import Backoff
from worker.agent.client import AttemptClient, Refused, ServiceAway
from worker.agent.data.cache import CacheFull, DatasetCache
from worker.agent.data.folders import find_difference, list_samples, unpack_samples
from worker.agent.data.public_sets import NotFetched, fetch_public_set
from worker.agent.data.registered import NotInPlace, describe_registered, open_registered
from worker.agent.data.sent_files import name_sent
from worker.agent.data.transfer import WrongDigest, fetch_file
from worker.agent.stopping import StopSignal, locked
from worker.jobdir import LocalDataset

Answer = TypeVar("Answer")

TABLE = "table.parquet"
"""File name of a table in its cache entry."""
_FETCHING: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""Held while a public set is fetched; attempts of other slots wait for it."""
SAY_SECONDS = 10.0
"""Pause between two progress messages about a long download."""


class DatasetMissing(Exception):  # noqa: N818  # the failure that it carries is the error
    """The data set is not available on this worker."""

    def __init__(self, failure: JobFailure) -> None:
        self.failure = failure
        super().__init__(failure.message)


@dataclass(frozen=True)
class DatasetSource:
    """Provides one attempt's data set.

    Attributes:
        say: Receives messages for the job's owner.
        public_dir: Folder with one folder for each public data set: files that were fetched, or
            put there by hand.
        mirrors: Addresses to try first for these files.
        public_sets: The files of each public data set.
    """

    client: AttemptClient
    cache: DatasetCache
    stop: StopSignal
    say: Callable[[str], None]
    public_dir: Path = Path("datasets")
    mirrors: Sequence[str] = ()
    public_sets: Mapping[str, PublicSet] = field(default_factory=lambda: PUBLIC_SETS)

    def open(self, ref: DatasetRef, *, until: ExitStack, as_sent: bool = False) -> LocalDataset:
        """Make the data set available on this host; it stays cached until the stack is closed.

        Args:
            ref: The data set.
            until: Stack that holds the cache entry for as long as it is needed.
            as_sent: Return a table as its owner uploaded it, not as the service parsed it, and an
                upload that the service refused.

        Raises:
            DatasetMissing: The data set is not available; carries the failure to report.
            Stopped: The attempt was asked to stop meanwhile.
            Superseded: The attempt belongs to another worker now.
            OSError: The disk is full.
        """
        try:
            found = self._open(ref, until=until, as_sent=as_sent)
        except CacheFull as error:
            raise _missing(FailureCode.DISK_FULL, ref, error) from error
        except (WrongDigest, Refused, NotFetched) as error:
            raise _missing(FailureCode.DATASET_UNAVAILABLE, ref, error) from error
        known = {"sha256", "warnings", "leaks", "num_copies", "num_repeated"}
        return found.model_copy(update=ref.model_dump(include=known))

    def _open(self, ref: DatasetRef, *, until: ExitStack, as_sent: bool) -> LocalDataset:
        if ref.kind == "builtin":
            return self._open_builtin(ref)
        if as_sent and (ref.is_table or ref.index_sha256 is None):
            return self._open_sent(ref, until=until)
        if ref.is_table:
            return self._open_table(ref, until=until)
        if ref.kind == "archive":
            return self._open_archive(ref, until=until)
        return self._open_folder(ref, until=until)

    def _open_table(self, ref: DatasetRef, *, until: ExitStack) -> LocalDataset:
        """Fetch a table's single file, whether it was registered as an archive or as a folder."""
        key = str(ref.index_sha256)
        folder = until.enter_context(
            self._hold(key, size_bytes=ref.index_bytes or 0, fill=partial(self._fetch_table, ref))
        )
        return LocalDataset(
            name=ref.name,
            kind=ref.kind,
            index_path=str(folder / TABLE),
            fingerprint=key,
        )

    def _open_sent(self, ref: DatasetRef, *, until: ExitStack) -> LocalDataset:
        key = str(ref.sha256)
        if ref.kind == "archive":
            folder = until.enter_context(
                self._hold(
                    f"{key}-sent",
                    size_bytes=ref.size_bytes or 0,
                    fill=partial(self._fetch_sent, ref),
                )
            )
            (path,) = folder.iterdir()
            return LocalDataset(name=ref.name, kind="archive", path=str(path), fingerprint=key)
        try:
            with open_registered(ref) as folder:
                if ref.stamp is not None and _stamp(folder) != ref.stamp:
                    raise NotInPlace(f"{ref.path} has changed since it was registered")
                return describe_registered(ref, folder, fingerprint=key)
        except NotInPlace as reason:
            parsed = "The job gets the table as the service parsed it, as one Parquet file."
            self.say(f"{reason}. {parsed}")
            return self._open_table(ref, until=until)

    def _hold(
        self, key: str, *, size_bytes: int, fill: Callable[[Path], None]
    ) -> AbstractContextManager[Path]:
        return self.cache.hold(key, size_bytes=size_bytes, fill=fill, check=self.stop.check)

    def _open_builtin(self, ref: DatasetRef) -> LocalDataset:
        public = find_public_set(ref.name, self.public_sets)
        if public is None:
            return LocalDataset(name=ref.name, kind="builtin", fingerprint=ref.name)
        name = ref.name.removeprefix("builtin:")
        folder = self.public_dir / name
        with locked(_FETCHING[name], check=self.stop.check):
            fetch_public_set(
                name, public, folder, mirrors=self.mirrors, stop=self.stop, say=self.say
            )
        return LocalDataset(
            name=ref.name, kind="builtin", path=str(folder.resolve()), fingerprint=ref.name
        )

    def _open_archive(self, ref: DatasetRef, *, until: ExitStack) -> LocalDataset:
        key = hashlib.sha256(f"{ref.sha256} {ref.index_sha256}".encode()).hexdigest()
        fill = partial(self._fetch_archive, ref)
        folder = until.enter_context(self._hold(key, size_bytes=ref.size_bytes or 0, fill=fill))
        return LocalDataset(
            name=ref.name,
            kind="archive",
            path=str(folder / "data"),
            index_path=str(folder / "index.json"),
            fingerprint=key,
        )

    def _open_folder(self, ref: DatasetRef, *, until: ExitStack) -> LocalDataset:
        key = str(ref.index_sha256 or ref.sha256)
        index_dir = until.enter_context(
            self._hold(f"{key}-index", size_bytes=0, fill=partial(self._fetch_index, key))
        )
        index_path = str(index_dir / "index.json")
        in_place = self._find_in_place(ref, index_dir, fingerprint=key)
        if in_place is not None:
            return in_place.model_copy(update={"index_path": index_path})
        fill = partial(self._fetch_files, ref, index_dir)
        folder = until.enter_context(
            self._hold(f"{key}-files", size_bytes=ref.size_bytes or 0, fill=fill)
        )
        return LocalDataset(
            name=ref.name,
            kind="folder",
            path=str(folder),
            index_path=index_path,
            fingerprint=key,
        )

    def _find_in_place(
        self, ref: DatasetRef, index_dir: Path, *, fingerprint: str
    ) -> LocalDataset | None:
        samples = list_samples(index_dir / "index.json")
        stamp_path = index_dir / "verified.json"
        try:
            with open_registered(ref) as folder:
                difference = find_difference(folder, samples, stamp_path=stamp_path, stop=self.stop)
                if difference is None:
                    return describe_registered(ref, folder, fingerprint=fingerprint)
        except NotInPlace:
            return None
        self.say(f"{ref.path} differs from its registered state ({difference}); asking the service")
        return None

    def _fetch_index(self, sha256: str, folder: Path) -> None:
        content = self._ask_until_answered(self.client.load_dataset_index)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise WrongDigest("the index was damaged on its way (its sha256 differs)")
        (folder / "index.json").write_bytes(content)

    def _fetch_table(self, ref: DatasetRef, folder: Path) -> None:
        fetch_file(
            lambda start: self.client.open_dataset_index(start=start),
            folder / TABLE,
            sha256=str(ref.index_sha256),
            stop=self.stop,
            on_bytes=_Progress(ref.name, ref.index_bytes, say=self.say),
        )

    def _fetch_sent(self, ref: DatasetRef, folder: Path) -> None:
        path = folder / "data"
        self._fetch_bytes(ref, path)
        path.rename(folder / name_sent(path))

    def _fetch_archive(self, ref: DatasetRef, folder: Path) -> None:
        self._fetch_index(str(ref.index_sha256), folder)
        self._fetch_bytes(ref, folder / "data")

    def _fetch_bytes(self, ref: DatasetRef, path: Path) -> None:
        fetch_file(
            lambda start: self.client.open_dataset(start=start),
            path,
            sha256=str(ref.sha256),
            stop=self.stop,
            on_bytes=_Progress(ref.name, ref.size_bytes, say=self.say),
        )

    def _fetch_files(self, ref: DatasetRef, index_dir: Path, folder: Path) -> None:
        samples = list_samples(index_dir / "index.json")
        progress = _Progress(ref.name, ref.size_bytes, say=self.say)

        def fetch() -> None:
            with self.client.open_dataset() as (_, chunks):
                unpack_samples(chunks, folder, samples, stop=self.stop, on_bytes=progress)

        self._ask_until_answered(fetch)

    def _ask_until_answered(self, ask: Callable[[], Answer]) -> Answer:
        backoff = Backoff()
        while True:
            try:
                return ask()
            except ServiceAway:
                self.stop.wait(backoff.next_seconds())


def _stamp(folder: Path) -> str | None:
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return stamp_folder(place)
    except OSError:
        return None  # a file vanished meanwhile
    finally:
        os.close(place)


class _Progress:
    """Reports a download's progress: at its start and then at long intervals."""

    def __init__(self, name: str, size_bytes: int | None, *, say: Callable[[str], None]) -> None:
        self._name = name
        self._total = f" of {_size(size_bytes)}" if size_bytes else ""
        self._say = say
        self._said_at = time.monotonic()
        size = f" ({_size(size_bytes)})" if size_bytes else ""
        say(f"fetching data set {name}{size}")

    def __call__(self, num_bytes: int) -> None:
        if time.monotonic() - self._said_at < SAY_SECONDS:
            return
        self._said_at = time.monotonic()
        self._say(f"fetched {_size(num_bytes)}{self._total} of data set {self._name}")


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB" if num_bytes >= 1e5 else f"{num_bytes / 1e3:.1f} kB"


def _missing(code: FailureCode, ref: DatasetRef, error: Exception) -> DatasetMissing:
    return DatasetMissing(JobFailure.of(code, f"Data set {ref.name}: {error}", dataset=ref.id))
