"""Adds up stored bytes by kind, and finds what can be deleted."""

from typing import Any

import sqlalchemy as sa
from sqlmodel import Session, col

from redkiln.status import JobStatus
from redkiln.views.overview import Disk
from redkiln.views.storage import KindUse, LargeItem, StorageKind, StorageUse
from service.artifacts.models import Artifact
from service.attempts.models import Attempt, Checkpoint
from service.bundles.models import Bundle
from service.datasets.models import Dataset
from service.jobs.models import Job
from service.projects.owners import belongs_to
from service.settings import Settings
from service.uploads.models import Upload
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


def measure_use(
    session: Session, settings: Settings, *, disk: Disk, project: str | None = None
) -> StorageUse:
    """Return what takes space, and what can be deleted without stopping a job.

    Args:
        session: Reading session.
        settings: The service's settings.
        disk: The disk of the state folder.
        project: Project whose use is measured; None for everything.
    """
    own = sa.select(col(Job.id)).where(belongs_to(col(Job.project), project))
    kinds = [
        _measure(
            session,
            "datasets",
            _SET_BYTES,
            sa.and_(_STORED_SET, belongs_to(col(Dataset.project), project)),
            freeable=_unused_set(),
            how="DELETE /v1/datasets/{id}, or redkiln datasets delete NAME",
        ),
        *_measure_jobs(session, settings, own),
        _measure_uploads(session, settings, project),
    ]
    if project is None:
        kinds += [_measure_bundles(session, settings), _measure_database(settings)]
    return StorageUse(disk=disk, kinds=kinds, largest=_list_largest(session, project))


def _measure_jobs(session: Session, settings: Settings, own: sa.Select[Any]) -> list[KindUse]:
    delete_job = "DELETE /v1/jobs/{id}, or redkiln delete JOB"
    hours = settings.keep_checkpoints_hours
    after = f"{delete_job}; they are deleted {hours:g} h after the job has ended"
    parts: list[tuple[StorageKind, Any, Any, str]] = [
        ("artifacts", Artifact.size_bytes, Artifact.job_id, delete_job),
        ("checkpoints", Checkpoint.size_bytes, Checkpoint.job_id, after),
        ("logs", Attempt.log_bytes, Attempt.job_id, delete_job),
    ]
    return [
        _measure(
            session,
            kind,
            col(size),
            col(job_id).in_(own),
            freeable=col(job_id).in_(_ENDED),
            how=how,
        )
        for kind, size, job_id, how in parts
    ]


def _measure_bundles(session: Session, settings: Settings) -> KindUse:
    named = sa.select(col(Job.bundle_sha256)).where(col(Job.bundle_sha256).is_not(None))
    return _measure(
        session,
        "bundles",
        col(Bundle.size_bytes),
        sa.true(),
        freeable=col(Bundle.sha256).not_in(named),
        how=f"deleted {settings.keep_bundles_hours:g} h after the last use",
    )


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


def _measure_uploads(session: Session, settings: Settings, project: str | None) -> KindUse:
    own = sa.select(col(Upload.id)).where(belongs_to(col(Upload.project), project))
    count, size = PartFiles(settings.uploads_dir).measure(session.scalars(own).all())
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
    return col(Dataset.id).not_in(_ACTIVE_SETS)


def _list_largest(session: Session, project: str | None) -> list[LargeItem]:
    """Return the ended jobs and unused data sets with most bytes."""
    parts = sa.union_all(
        sa.select(col(Artifact.job_id).label("job_id"), col(Artifact.size_bytes).label("size")),
        sa.select(col(Checkpoint.job_id), col(Checkpoint.size_bytes)),
    ).subquery()
    total = sa.func.sum(parts.c.size).label("total")
    jobs = (
        sa.select(col(Job.id), col(Job.name), total)
        .join(parts, parts.c.job_id == col(Job.id))
        .where(col(Job.id).in_(_ENDED), belongs_to(col(Job.project), project))
        .group_by(col(Job.id), col(Job.name))
        .order_by(total.desc())
        .limit(MOST_ITEMS)
    )
    sets = (
        sa.select(col(Dataset.id), col(Dataset.name), _SET_BYTES.label("total"))
        .where(_STORED_SET, _unused_set(), belongs_to(col(Dataset.project), project))
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
