"""Registers, finds, settles and deletes data sets."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col, select

from redkiln.datasets import (
    BUILTINS,
    TEST_FRACTION,
    BuiltinImages,
    BuiltinTable,
    take_fraction,
)
from redkiln.protocol import DatasetRef
from redkiln.spec.problems import SpecProblem
from redkiln.spec.written import NAME_RULE, is_name, normalize_name
from redkiln.status import JobStatus
from redkiln.tables import TableOptions
from redkiln.views.dataset import (
    LEAKING_COLUMNS,
    ColumnView,
    DatasetStatus,
    DatasetView,
    count_copies,
)
from service.audit.record import note_object
from service.blobs.rules import discard
from service.database import read_now
from service.datasets.inspect.report import InspectionReport
from service.datasets.models import Dataset
from service.datasets.roots import find_root
from service.errors import Conflict, NotFound, Unavailable, Unprocessable
from service.ids import new_id
from service.jobs.models import Job
from service.keys.caller import DEFAULT_PROJECT
from service.projects.owners import SHARED, belongs_to
from service.storage import Storage, Stored

_ID_PREFIX = "ds_"
_BUILTIN = "builtin:"
_ACTIVE = [status for status in JobStatus if not status.is_terminal]


def check_name(name: str | None) -> str:
    """Check the name of a new data set, and return it as it is stored.

    Raises:
        Unprocessable: The name is missing, has other characters, or looks like an id.
    """
    name = name and normalize_name(name)
    if name and is_name(name) and not name.startswith(_ID_PREFIX):
        return name
    message = (
        f"{name!r} is not a valid name; use {NAME_RULE} but not with {_ID_PREFIX}, which marks ids"
        if name
        else "the data set has no name; set the parameter `name`"
    )
    problem = SpecProblem("/name", "invalid_name", message)
    raise Unprocessable(message, code="invalid_name", errors=[problem])


def register_archive(
    session: Session,
    storage: Storage,
    *,
    name: str,
    seed: int,
    stored: Stored,
    options: TableOptions | None = None,
    project: str = DEFAULT_PROJECT,
) -> tuple[Dataset, bool]:
    """Register uploaded bytes as a data set; return it and whether to validate it.

    If the project's newest set of that name has the same bytes, seed and options, it is returned
    instead of a new one, and validated again if it was refused.

    Raises:
        Unavailable: The bytes were deleted in the meantime.
    """
    newest = _newest(session, name, project=project)
    given = options.given() if options else {}
    if (
        newest is not None
        and (newest.sha256, newest.seed, newest.kind) == (stored.sha256, seed, "archive")
        and newest.options == given
    ):
        was_refused = newest.status == DatasetStatus.INVALID
        if was_refused:
            newest.status = DatasetStatus.VALIDATING
            newest.report = {}
            session.add(newest)
        return newest, was_refused
    if storage.stat(stored.sha256) is None:
        # Housekeeping deleted equal bytes of a deleted set between the upload and this transaction.
        raise Unavailable("the upload was deleted before it was registered; send it again")
    dataset = _add(session, name=name, kind="archive", seed=seed, project=project)
    dataset.sha256 = stored.sha256
    dataset.size_bytes = stored.size_bytes
    dataset.options = given
    return dataset, True


def register_folder(
    session: Session,
    *,
    name: str,
    seed: int,
    path: str,
    options: TableOptions | None = None,
    project: str = DEFAULT_PROJECT,
) -> Dataset:
    """Register a folder of this machine as a data set."""
    dataset = _add(session, name=name, kind="folder", seed=seed, project=project)
    dataset.path = path
    dataset.options = options.given() if options else {}
    return dataset


def ensure_builtins(session: Session) -> None:
    """Make sure that every built-in data set has its row."""
    for builtin in BUILTINS.values():
        name = f"{_BUILTIN}{builtin.name}"
        if _newest(session, name, project=SHARED) is None:
            dataset = _add(session, name=name, kind="builtin", seed=0, project=SHARED)
            dataset.status = DatasetStatus.READY
            dataset.task = builtin.task
            dataset.report = _describe_builtin(builtin).model_dump()


def get_dataset(session: Session, dataset_id: str) -> Dataset:
    """Return a data set by id, or a built-in one by its name, which is unique.

    Raises:
        NotFound: There is no such data set, or it was deleted.
    """
    is_builtin = dataset_id.startswith(_BUILTIN)
    dataset = (
        _newest(session, dataset_id, project=SHARED)
        if is_builtin
        else session.get(Dataset, dataset_id)
    )
    if dataset is None or dataset.deleted_at is not None:
        message = f"there is no data set {dataset_id!r}; GET /v1/datasets lists the data sets"
        raise NotFound(message)
    return dataset


def find_dataset(session: Session, reference: str, *, project: str | None = None) -> Dataset | None:
    """Find the data set that a job spec refers to: by id, else the newest of that name.

    By name, the newest that is not invalid is preferred: a user who pushes a new version and
    submits at once means that one, even while an older one is ready. Of other projects than
    `project`, none is found; None finds those of all.
    """
    by_id = session.get(Dataset, reference) if reference.startswith(_ID_PREFIX) else None
    if by_id is not None:
        is_seen = project is None or by_id.project == project
        return by_id if by_id.deleted_at is None and is_seen else None
    preference = sa.case((col(Dataset.status) == DatasetStatus.INVALID, 1), else_=0)
    return session.exec(
        select(Dataset)
        .where(Dataset.name == normalize_name(reference), col(Dataset.deleted_at).is_(None))
        .where(belongs_to(col(Dataset.project), project))
        .order_by(preference, col(Dataset.id).desc())
        .limit(1)
    ).first()


def list_datasets(
    session: Session,
    *,
    name: str | None,
    after: str | None,
    limit: int,
    part: str | None = None,
    project: str | None = None,
) -> Sequence[Dataset]:
    """Return data sets, newest first.

    Args:
        session: Reading session.
        name: Name of the data sets to list; None for all.
        after: Id of a data set; only older ones are listed.
        limit: Maximum number of rows.
        part: Text that their names contain, in any case of letters; None for all.
        project: Project whose data sets are listed, with the built-in ones; None for all.
    """
    statement = select(Dataset).where(
        col(Dataset.deleted_at).is_(None), belongs_to(col(Dataset.project), project)
    )
    if name is not None:
        statement = statement.where(Dataset.name == normalize_name(name))
    if part is not None:
        statement = statement.where(col(Dataset.name).icontains(part, autoescape=True))
    if after is not None:
        statement = statement.where(Dataset.id < after)
    return session.exec(statement.order_by(col(Dataset.id).desc()).limit(limit)).all()


def delete_dataset(session: Session, dataset_id: str) -> None:
    """Delete a data set; a folder registered in place is not touched.

    Raises:
        NotFound: There is no such data set.
        Conflict: The data set is built in, or an unfinished job uses it.
    """
    dataset = get_dataset(session, dataset_id)
    if dataset.kind == "builtin":
        raise Conflict("a built-in data set cannot be deleted", code="builtin_dataset")
    user = session.exec(
        select(Job.id).where(Job.dataset_id == dataset.id, col(Job.status).in_(_ACTIVE)).limit(1)
    ).first()
    if user is not None:
        message = f"job {user} uses this data set; cancel the job first"
        raise Conflict(message, code="dataset_in_use")
    dataset.deleted_at = read_now(session)
    session.add(dataset)
    session.flush()
    discard(session, [sha for sha in (dataset.sha256, dataset.index_sha256) if sha is not None])


def forget_deleted(session: Session) -> int:
    """Remove the rows of deleted data sets that no job has used; return their number.

    While there is such a job, its row shows where its data came from.
    """
    is_used = sa.exists().where(col(Job.dataset_id) == col(Dataset.id))
    forgotten = sa.delete(Dataset).where(col(Dataset.deleted_at).is_not(None), ~is_used)
    return session.exec(forgotten).rowcount


def settle(
    session: Session, dataset_id: str, *, report: InspectionReport, index: Stored | None
) -> Dataset | None:
    """Record the result of an inspection; None if the data set no longer waits for it.

    Args:
        session: Session of a writing transaction.
        dataset_id: Id of the inspected data set.
        report: Report of the inspection.
        index: Stored index of a valid set; None for an invalid one.
    """
    dataset = session.get(Dataset, dataset_id, with_for_update=True)
    is_waiting = (
        dataset is not None
        and dataset.deleted_at is None
        and dataset.status == DatasetStatus.VALIDATING
    )
    if dataset is None or not is_waiting:
        if index is not None:
            discard(session, [index.sha256])
        return None
    dataset.report = report.model_dump()
    dataset.validated_at = read_now(session)
    dataset.status = DatasetStatus.INVALID if index is None else DatasetStatus.READY
    if index is not None:
        dataset.task = report.task
        dataset.index_sha256 = index.sha256
        dataset.index_bytes = index.size_bytes
        if dataset.kind == "folder":
            dataset.sha256 = index.sha256
            dataset.size_bytes = report.size_bytes
    session.add(dataset)
    return dataset


def list_unsettled(session: Session) -> Sequence[Dataset]:
    """Return the data sets that still need an inspection, oldest first."""
    return session.exec(
        select(Dataset)
        .where(Dataset.status == DatasetStatus.VALIDATING, col(Dataset.deleted_at).is_(None))
        .order_by(Dataset.id)
    ).all()


def dataset_view(dataset: Dataset) -> DatasetView:
    """Return a data set as the API shows it."""
    report: dict[str, Any] = dict(dataset.report)
    own = {field: getattr(dataset, field) for field in _SHOWN}
    size_bytes = dataset.size_bytes
    was_read = bool(report.get("columns")) and dataset.kind != "builtin"
    options = TableOptions.model_validate(dataset.options)
    missing = options.missing_words if was_read else None
    return DatasetView(**{**report, **own, "size_bytes": size_bytes, "missing": missing})


def dataset_ref(dataset: Dataset, *, roots: Sequence[Path]) -> DatasetRef:
    """Return a reference to a data set for the worker that will train on it.

    Args:
        dataset: The data set.
        roots: Folders below which data may be used in place.
    """
    root = None if dataset.path is None else find_root(dataset.path, roots)
    warnings = dataset.report.get("warnings", [])
    return DatasetRef(
        id=dataset.id,
        name=dataset.name,
        kind=dataset.kind,
        sha256=dataset.sha256,
        size_bytes=dataset.size_bytes,
        index_sha256=dataset.index_sha256,
        index_bytes=dataset.index_bytes,
        path=dataset.path,
        root=None if root is None else str(root),
        stamp=dataset.report.get("stamp"),
        task=dataset.task,
        warnings=[one["message"] for one in warnings],
        leaks=[one["message"] for one in warnings if one["code"] == LEAKING_COLUMNS],
        **count_copies(warnings),
    )


_SHOWN = (
    *("id", "name", "status", "kind", "project", "task", "sha256", "path", "created_at"),
    "options",
)


def _add(session: Session, *, name: str, kind: str, seed: int, project: str) -> Dataset:
    dataset = Dataset(
        id=new_id("ds"),
        name=name,
        status=DatasetStatus.VALIDATING,
        kind=kind,
        project=project,
        seed=seed,
        created_at=read_now(session),
    )
    session.add(dataset)
    note_object(session, dataset.id)
    return dataset


def _newest(session: Session, name: str, *, project: str) -> Dataset | None:
    rows = list_datasets(session, name=name, after=None, limit=1, project=project)
    return rows[0] if rows else None


def _describe_builtin(builtin: BuiltinImages | BuiltinTable) -> InspectionReport:
    report = InspectionReport(
        task=builtin.task,
        classes=builtin.classes,
        counts=_count_builtin(builtin),
        notes=[builtin.description],
    )
    if isinstance(builtin, BuiltinImages):
        width, height = builtin.image_size
        report.image_sizes = {f"{width}x{height}": builtin.num_samples}
        report.image_modes = {"L" if builtin.channels == 1 else "RGB": builtin.num_samples}
    else:
        num_classes = len(builtin.classes) or None
        target = ColumnView(
            name=builtin.target,
            type="target",
            num_categories=num_classes,
            categories=builtin.classes,
        )
        report.target = builtin.target
        report.columns = [
            *(ColumnView(name=name, type="numeric") for name in builtin.columns),
            target,
        ]
    return report


def _count_builtin(builtin: BuiltinImages | BuiltinTable) -> dict[str, dict[str, int]]:
    names = builtin.classes or ["rows"]
    class_counts = builtin.class_counts or [builtin.num_samples]
    if isinstance(builtin, BuiltinImages) and builtin.test_counts:
        pairs = list(zip(names, class_counts, builtin.test_counts, strict=True))
        return {
            "train": {name: count - tested for name, count, tested in pairs},
            "test": {name: tested for name, _, tested in pairs},
        }
    labels = [label for label, count in enumerate(class_counts) for _ in range(count)]
    ranks = [rank for count in class_counts for rank in range(count)]
    is_test = take_fraction(labels, ranks, fraction=TEST_FRACTION)
    counts = Counter(zip(is_test, labels, strict=True))
    return {
        split: {name: counts[taken, label] for label, name in enumerate(names)}
        for split, taken in (("train", False), ("test", True))
    }
