"""Adds up stored bytes by kind, and finds what can be deleted."""

from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col

from redkiln.status import JobStatus
from redkiln.views.dataset import DatasetStatus
from redkiln.views.overview import Disk
from redkiln.views.storage import KindUse, LargeItem, StorageKind, StorageUse
from service.artifacts.models import Artifact
from service.attempts.models import Attempt, Checkpoint
from service.bundles.models import Bundle
from service.datasets.models import Dataset
from service.jobs.models import Job
from service.settings import Settings
from service.uploads.parts import PartFiles

MOST_ITEMS = 20
_ENDED = sa.select(col(Job.id)).where(
    col(Job.status).in_([status for status in JobStatus if status.is_terminal])
)
_ACTIVE_SETS = sa.select(col(Job.dataset_id)).where(
    col(Job.status).in_([status for status in JobStatus if not status.is_terminal]),
    col(Job.dataset_id).is_not(None),
)
_STORED_SET = sa.and_(col(Dataset.deleted_at).is_(None), col(Dataset.kind) == "archive")
_SET_BYTES = sa.func.coalesce(col(Dataset.size_bytes), 0) + sa.func.coalesce(
    col(Dataset.index_bytes), 0
)


def measure_use(session: Session, settings: Settings, *, disk: Disk) -> StorageUse:
    """Return what takes space, and what can be deleted without stopping a job."""
    delete_job = "DELETE /v1/jobs/{id}, or redkiln delete JOB"
    kinds = [
        _measure(
            session,
            "datasets",
            _SET_BYTES,
            _STORED_SET,
            freeable=_unused_set(),
            how="DELETE /v1/datasets/{id}, or redkiln datasets delete NAME",
        ),
        _measure(
            session,
            "artifacts",
            col(Artifact.size_bytes),
            sa.true(),
            freeable=col(Artifact.job_id).in_(_ENDED),
            how=delete_job,
        ),
        _measure(
            session,
            "checkpoints",
            col(Checkpoint.size_bytes),
            sa.true(),
            freeable=col(Checkpoint.job_id).in_(_ENDED),
            how=f"{delete_job}; they are deleted {settings.keep_checkpoints_hours:g} h after the "
            "job has ended",
        ),
        _measure(
            session,
            "bundles",
            col(Bundle.size_bytes),
            sa.true(),
            freeable=col(Bundle.sha256).not_in(
                sa.select(col(Job.bundle_sha256)).where(col(Job.bundle_sha256).is_not(None))
            ),
            how=f"deleted {settings.keep_bundles_hours:g} h after the last use",
        ),
        _measure(
            session,
            "logs",
            col(Attempt.log_bytes),
            sa.true(),
            freeable=col(Attempt.job_id).in_(_ENDED),
            how=delete_job,
        ),
        _measure_uploads(settings),
        _measure_database(settings),
    ]
    return StorageUse(disk=disk, kinds=kinds, largest=_list_largest(session))


def _measure(
    session: Session,
    kind: StorageKind,
    size: Any,
    which: sa.ColumnElement[bool],
    *,
    freeable: sa.ColumnElement[bool],
    how: str,
) -> KindUse:
    statement = sa.select(
        sa.func.count(),
        sa.func.sum(size),
        sa.func.sum(sa.case((freeable, size), else_=0)),
    ).where(which)
    count, total, free = session.execute(statement).one()
    return KindUse(kind=kind, bytes=total or 0, count=count, freeable_bytes=free or 0, how=how)


def _measure_uploads(settings: Settings) -> KindUse:
    count, size = PartFiles(settings.uploads_dir).measure()
    how = (
        "DELETE /v1/uploads/{id}; parts are deleted "
        f"{settings.upload_hours:g} h after the last one arrived"
    )
    return KindUse(kind="uploads", bytes=size, count=count, freeable_bytes=size, how=how)


def _measure_database(settings: Settings) -> KindUse:
    path = settings.sqlite_path
    files = [path, path.with_name(f"{path.name}-wal")]
    sizes = [file.stat().st_size for file in files if file.exists()]
    how = "delete old jobs; SQLite uses the space again but does not return it to the disk"
    return KindUse(kind="database", bytes=sum(sizes), count=len(sizes), freeable_bytes=0, how=how)


def _unused_set() -> sa.ColumnElement[bool]:
    """Return the condition that a data set can be deleted: no unfinished job needs it."""
    return sa.or_(
        col(Dataset.status) == DatasetStatus.INVALID, col(Dataset.id).not_in(_ACTIVE_SETS)
    )


def _list_largest(session: Session) -> list[LargeItem]:
    """Return the ended jobs and unused data sets with most bytes."""
    parts = sa.union_all(
        sa.select(col(Artifact.job_id).label("job_id"), col(Artifact.size_bytes).label("size")),
        sa.select(col(Checkpoint.job_id), col(Checkpoint.size_bytes)),
    ).subquery()
    total = sa.func.sum(parts.c.size).label("total")
    jobs = (
        sa.select(col(Job.id), col(Job.name), total)
        .join(parts, parts.c.job_id == col(Job.id))
        .where(col(Job.id).in_(_ENDED))
        .group_by(col(Job.id), col(Job.name))
        .order_by(total.desc())
        .limit(MOST_ITEMS)
    )
    sets = (
        sa.select(col(Dataset.id), col(Dataset.name), _SET_BYTES.label("total"))
        .where(_STORED_SET, _unused_set())
        .order_by(sa.desc("total"))
        .limit(MOST_ITEMS)
    )
    items = [
        *(
            LargeItem(kind="job", id=id_, name=name, bytes=size, url=f"/v1/jobs/{id_}")
            for id_, name, size in session.execute(jobs)
        ),
        *(
            LargeItem(kind="dataset", id=id_, name=name, bytes=size, url=f"/v1/datasets/{id_}")
            for id_, name, size in session.execute(sets)
        ),
    ]
    return sorted(items, key=lambda item: -item.bytes)[:MOST_ITEMS]
