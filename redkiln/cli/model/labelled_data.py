"""Finds labelled data that a user names: a path, or a data set of the service."""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from redkiln.cli.command import Session
from redkiln.cli.datasets import find_dataset
from redkiln.cli.model.public_files import fetch_public_set
from redkiln.cli.problems import UsageError
from redkiln.client.packing import open_package
from redkiln.errors import NotFound, PackingError, RedkilnError
from redkiln.public_sets import find_public_set
from redkiln.spec.written import is_name
from redkiln.views.dataset import DatasetView

if TYPE_CHECKING:
    from redkiln.predict.description import Description

STDIN = "-"
BUILTIN = "builtin:"


@dataclass(frozen=True)
class LabelledData:
    """Data to score a model on.

    Attributes:
        path: Folder, table or pattern, for `redkiln.predict.labelled.score.score_data`.
        name: Name for people.
        target: Column of a table with the answers; None if only the model knows it.
        is_own: Whether these are the user's files; others are UTF-8.
        reference: Id of the data set whose test split this is, or name of the built-in one.
    """

    path: str
    name: str
    target: str | None
    is_own: bool = False
    reference: str | None = None


@contextmanager
def open_data(session: Session, named: str) -> Iterator[LabelledData]:
    """Return the data that a user names; a data set's test split is downloaded for the block.

    Args:
        session: The command's session.
        named: A file, folder or pattern, `-`, the name or id of a data set, or a built-in set,
            which needs no service.

    Raises:
        UsageError: It is neither a file nor a data set, or the data set has no such samples.
    """
    if named == STDIN or Path(named).expanduser().exists() or any(mark in named for mark in "*?["):
        yield LabelledData(named, _describe_own(named), None, is_own=True)
        return
    if named.startswith(BUILTIN):
        with _make_builtin(session, named) as data:
            yield data
        return
    dataset = _find(session, named)
    with tempfile.TemporaryDirectory(prefix="redkiln-data-") as folder:
        archive = Path(folder) / "samples.zip"
        try:
            session.client.download_test_samples(dataset.id, archive)
        except NotFound as error:
            raise UsageError(
                f"--data {named}: {error.detail}. Give a file or folder instead."
            ) from error
        with zipfile.ZipFile(archive) as file:
            file.extractall(Path(folder) / "samples")
        samples = Path(folder) / "samples"
        rows = samples / "rows.csv"
        path = rows if rows.is_file() else samples
        yield LabelledData(
            str(path), f"{dataset.name} (test split)", dataset.target, reference=dataset.id
        )


def is_test_split_of(session: Session, data: LabelledData, known: "Description") -> bool:
    """Return whether data are the test split that a model's job was scored on."""
    if data.reference is None:
        return False
    if data.reference.startswith(BUILTIN):
        return bool(known.manifest.get("dataset", {}).get("name") == data.reference)
    try:
        return session.client.job(known.job_id).dataset_id == data.reference
    except RedkilnError:  # deleted, or a job of another service
        return False


def is_what_trained(data: LabelledData, known: "Description") -> bool:
    """Return whether a user's files are those that a model's data set was made from."""
    sha256 = known.manifest.get("dataset", {}).get("sha256")
    if not data.is_own or sha256 is None:
        return False
    try:
        return bool(open_package(Path(data.path).expanduser()).digest() == sha256)
    except PackingError:  # a pattern, stdin, or files that cannot be a data set
        return False


def _describe_own(named: str) -> str:
    """Return a name of a user's files that cannot be taken for that of a data set."""
    is_folder = is_name(named) and Path(named).is_dir()
    return f"./{named} (this folder, not a data set)" if is_folder else named


@contextmanager
def _make_builtin(session: Session, named: str) -> Iterator[LabelledData]:
    from redkiln.predict.labelled.builtins import find_target, write_test_split

    files_dir = None
    if find_public_set(named) is not None:
        files_dir = fetch_public_set(named.removeprefix(BUILTIN), say=session.note)
    with tempfile.TemporaryDirectory(prefix="redkiln-data-") as folder:
        path = write_test_split(named, Path(folder), files_dir=files_dir)
        yield LabelledData(str(path), f"{named} (test split)", find_target(named), reference=named)


def _find(session: Session, named: str) -> DatasetView:
    if any(mark in named for mark in "/\\"):
        raise UsageError(f"--data {named}: this file or folder does not exist.")
    try:
        return find_dataset(session, named)
    except UsageError as error:
        raise UsageError(
            f"--data {named}: there is neither a file nor a data set of this name. List the data "
            "sets: redkiln datasets"
        ) from error
