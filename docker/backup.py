"""Backs up and restores the service's state, through standard output and input.

    docker compose run --rm -T backup save > redkiln.tar
    docker compose run --rm -T backup restore < redkiln.tar        (after `docker compose down`)

`save` works while the service runs. It copies the database at one moment, and every file that the
database refers to. Stored content never changes, so hard links made before and after that moment
protect it from the service's cleanup.
"""

import os
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO

STATE = Path("/state")
WORKER_KEY = Path("/secrets/keys/worker.key")
DATABASE = "redkiln.db"
COPIED = ("blobs", "logs", "keys")
USAGE = "usage: backup save > FILE    or    backup restore < FILE\n"


class RefusedError(Exception):
    """Refused without changing anything; the message says why and what to do."""


def save(state: Path, worker_key: Path, out: IO[bytes]) -> None:
    """Write the database, the stored content, the logs and the keys as a tar stream.

    Raises:
        RefusedError: The database is missing.
    """
    if not (state / DATABASE).is_file():
        raise RefusedError(
            f"{state} has no {DATABASE}, so there is nothing to save. If you use PostgreSQL, back "
            "it up with pg_dump."
        )
    held = Path(tempfile.mkdtemp(prefix="backup-", dir=state))
    try:
        link_files(state, held)
        copy_database(state / DATABASE, held / DATABASE)
        link_files(state, held)
        with tarfile.open(fileobj=out, mode="w|") as archive:
            archive.add(held, arcname="state")
            if worker_key.is_file():
                archive.add(worker_key, arcname="worker.key")
    finally:
        shutil.rmtree(held)


def restore(state: Path, worker_key: Path, source: IO[bytes]) -> None:
    """Restore a saved state into an empty volume.

    Raises:
        RefusedError: The volume is in use, or the input is not a backup.
    """
    if (state / DATABASE).exists():
        raise RefusedError(
            "The volume already has a database, which a restore never overwrites.\n"
            "To delete it:  docker compose down && docker volume rm redkiln_state"
        )
    staged = Path(tempfile.mkdtemp(prefix="restore-", dir=state))
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:
            # Set as an attribute, because Python before 3.11.4 has no such argument.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(staged, members=list_own(archive))  # noqa: S202 - each is looked at
    except BaseException as error:
        shutil.rmtree(staged)
        if isinstance(error, tarfile.TarError | KeyError):  # KeyError: a link to a missing member
            raise RefusedError(f"The input is not a complete backup: {error}.") from error
        if isinstance(error, OSError):
            raise RefusedError(
                f"The backup cannot be written to {state}: {error.strerror or error}. Nothing was "
                "changed."
            ) from error
        raise
    if not (staged / "state" / DATABASE).is_file():
        shutil.rmtree(staged)
        raise RefusedError(f"The input is not a backup: it has no {DATABASE}.")
    if (staged / "worker.key").is_file():
        shutil.copyfile(staged / "worker.key", worker_key)
        worker_key.chmod(0o600)
    for folder in COPIED:
        shutil.rmtree(state / folder, ignore_errors=True)  # left by a service without a database
        if (staged / "state" / folder).exists():
            (staged / "state" / folder).rename(state / folder)
    (staged / "state" / DATABASE).rename(state / DATABASE)  # last: this completes the restore
    shutil.rmtree(staged)


def list_own(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an archive, if all have names that `save` gives.

    Raises:
        RefusedError: A member has another name, and could be written anywhere.
    """
    for member in archive:
        names = [member.name, *([member.linkname] if member.islnk() else [])]
        is_file = member.isreg() or member.isdir() or member.islnk()
        if not (is_file and all(_is_own(PurePosixPath(name)) for name in names)):
            raise RefusedError(f"The input is not a backup: it has {member.name!r}.")
        yield member


def _is_own(path: PurePosixPath) -> bool:
    return ".." not in path.parts and path.parts[:1] in (("state",), ("worker.key",))


def link_files(state: Path, held: Path) -> None:
    """Hard-link files that are not linked yet; a file that vanishes meanwhile was not needed."""
    for top in COPIED:
        for folder, _, names in os.walk(state / top):
            target = held / Path(folder).relative_to(state)
            target.mkdir(parents=True, exist_ok=True)
            for name in names:
                link_if_there(Path(folder, name), target / name)


def link_if_there(path: Path, target: Path) -> None:
    """Hard-link one file, unless it is already linked or gone."""
    if target.exists():
        return
    try:
        target.hardlink_to(path)
    except FileNotFoundError:
        return


def copy_database(path: Path, target: Path) -> None:
    """Copy the database at one moment, while other processes write to it."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def main(arguments: Sequence[str]) -> int:
    """Save or restore, according to the first argument."""
    if len(arguments) != 1 or arguments[0] not in ("save", "restore"):
        sys.stderr.write(USAGE)
        return 2
    try:
        if arguments[0] == "save":
            save(STATE, WORKER_KEY, sys.stdout.buffer)
        else:
            restore(STATE, WORKER_KEY, sys.stdin.buffer)
    except RefusedError as refused:
        sys.stderr.write(f"redkiln: {refused}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
