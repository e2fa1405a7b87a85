"""Back-up and restore of the service's state, through standard output and input.

    docker compose run --rm -T backup save > redkiln.tar
    docker compose run --rm -T backup restore < redkiln.tar        (after `docker compose down`)

`save` works beside a running service. It takes the database as of one moment, and every file that
the database then names: content never changes once it is stored, so hard links made before and
after that moment hold it against the service's own cleaning.
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
    """Nothing was changed; the message says why and what to do."""


def save(state: Path, worker_key: Path, out: IO[bytes]) -> None:
    """Write the database, the stored content, the logs and the keys as a tar stream.

    Raises:
        RefusedError: there is no database here.
    """
    if not (state / DATABASE).is_file():
        raise RefusedError(f"{state} holds no {DATABASE}: nothing to save (PostgreSQL has pg_dump)")
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
    """Put a saved state into an empty volume.

    Raises:
        RefusedError: the volume is in use, or what comes is no back-up.
    """
    if (state / DATABASE).exists():
        raise RefusedError(
            "the volume already holds a database, and a restore never overwrites one.\n"
            "To drop what is there:  docker compose down && docker volume rm redkiln_state"
        )
    staged = Path(tempfile.mkdtemp(prefix="restore-", dir=state))
    try:
        with tarfile.open(fileobj=source, mode="r|") as archive:
            # Not as an argument, which Pythons before 3.11.4 do not know.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(staged, members=list_own(archive))  # noqa: S202 - each is looked at
    except BaseException as error:
        shutil.rmtree(staged)
        if isinstance(error, tarfile.TarError | KeyError):  # a link to what is not in it
            raise RefusedError(f"what came is no whole back-up: {error}") from error
        if isinstance(error, OSError):
            raise RefusedError(
                f"the back-up cannot be written to {state}: {error.strerror or error}; nothing was "
                "changed"
            ) from error
        raise
    if not (staged / "state" / DATABASE).is_file():
        shutil.rmtree(staged)
        raise RefusedError(f"what came is no back-up: it has no {DATABASE}")
    if (staged / "worker.key").is_file():
        shutil.copyfile(staged / "worker.key", worker_key)
        worker_key.chmod(0o600)
    for folder in COPIED:
        shutil.rmtree(state / folder, ignore_errors=True)  # a service that never got a database
        if (staged / "state" / folder).exists():
            (staged / "state" / folder).rename(state / folder)
    (staged / "state" / DATABASE).rename(state / DATABASE)  # last: it makes the restore count
    shutil.rmtree(staged)


def list_own(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The members of an archive, as `save` names them.

    Raises:
        RefusedError: one is none of a back-up's, and might be written anywhere.
    """
    for member in archive:
        names = [member.name, *([member.linkname] if member.islnk() else [])]
        is_file = member.isreg() or member.isdir() or member.islnk()
        if not (is_file and all(_is_own(PurePosixPath(name)) for name in names)):
            raise RefusedError(f"what came is no back-up: it has {member.name!r}")
        yield member


def _is_own(path: PurePosixPath) -> bool:
    return ".." not in path.parts and path.parts[:1] in (("state",), ("worker.key",))


def link_files(state: Path, held: Path) -> None:
    """Hard-link what is not held yet; a file that goes away meanwhile was not needed."""
    for top in COPIED:
        for folder, _, names in os.walk(state / top):
            target = held / Path(folder).relative_to(state)
            target.mkdir(parents=True, exist_ok=True)
            for name in names:
                link_if_there(Path(folder, name), target / name)


def link_if_there(path: Path, target: Path) -> None:
    """Link one file unless it is linked already or gone."""
    if target.exists():
        return
    try:
        target.hardlink_to(path)
    except FileNotFoundError:
        return


def copy_database(path: Path, target: Path) -> None:
    """The database as of one moment, while others write to it."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def main(arguments: Sequence[str]) -> int:
    """Save or restore, by the first argument."""
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
