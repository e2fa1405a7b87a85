"""Which ended jobs lose their files, or are deleted, after how many days.

A job is kept with its files while a registered version is one of them, or while a job that has not
ended starts from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
import structlog
from sqlmodel import Session, col, delete, select

from redkiln.views.storage import RetentionItem, RetentionPlan, RetentionRule, RetentionRuleName
from service.artifacts.models import Artifact
from service.attempts.models import Attempt, Checkpoint
from service.blobs.rules import discard
from service.database import read_now
from service.errors import Conflict, NotFound
from service.jobs.initial import source_job_of
from service.jobs.models import Job
from service.jobs.removal import remove
from service.jobs.rules import get_job, note_event
from service.projects.owners import belongs_to
from service.registry.models import RegistryVersion
from service.services import Services
from service.settings import Settings

log = structlog.get_logger()

MOST_LISTED = 100
"""Jobs that a preview lists for each rule."""
MOST_AT_ONCE = 500
"""Jobs that one round of housekeeping changes for each rule, so that it does not stop for long."""

_REGISTERED = sa.select(col(RegistryVersion.job_id))
_HAS_FILES = col(Job.id).in_(sa.select(col(Artifact.job_id)))
_HAS_CHECKPOINTS = col(Job.id).in_(sa.select(col(Checkpoint.job_id)))
_FILE_BYTES, _CHECKPOINT_BYTES = (
    sa.select(sa.func.coalesce(sa.func.sum(table.size_bytes), 0))
    .where(col(table.job_id) == col(Job.id))
    .correlate(Job)
    .scalar_subquery()
    for table in (Artifact, Checkpoint)
)
_LOG_BYTES = (
    sa.select(sa.func.coalesce(sa.func.sum(Attempt.log_bytes), 0))
    .where(col(Attempt.job_id) == col(Job.id))
    .correlate(Job)
    .scalar_subquery()
)


@dataclass(frozen=True)
class _Rule:
    """What a rule deletes of jobs that ended so many days ago; None: it is off.

    Attributes:
        has_any: Condition that a job has any of it.
        size: Bytes of it that a job has.
    """

    name: RetentionRuleName
    setting: str
    days: float | None
    has_any: sa.ColumnElement[bool]
    size: sa.ColumnElement[Any]


def plan_retention(
    session: Session, settings: Settings, *, project: str | None = None
) -> RetentionPlan:
    """Return what the rules would delete now of a project (None: of all); nothing is changed."""
    rules = _rules_of(settings)
    return RetentionPlan(rules=[_preview(session, rule, project) for rule in rules])


def delete_old_jobs(services: Services) -> int:
    """Delete the jobs that ended before `keep_jobs_days`; return their number."""
    return _apply(services, _rules_of(services.settings)[0])


def delete_old_files(services: Services) -> int:
    """Delete the files of jobs that ended before `keep_files_days`; return the number of jobs."""
    return _apply(services, _rules_of(services.settings)[1])


def _rules_of(settings: Settings) -> Sequence[_Rule]:
    return (
        _Rule(
            name="jobs",
            setting="REDKILN_KEEP_JOBS_DAYS",
            days=settings.keep_jobs_days,
            has_any=sa.true(),
            size=_FILE_BYTES + _CHECKPOINT_BYTES + _LOG_BYTES,
        ),
        _Rule(
            name="files",
            setting="REDKILN_KEEP_FILES_DAYS",
            days=settings.keep_files_days,
            has_any=_HAS_FILES,
            size=_FILE_BYTES,
        ),
        _Rule(
            name="checkpoints",
            setting="REDKILN_KEEP_CHECKPOINTS_HOURS",
            days=settings.keep_checkpoints_hours / 24,
            has_any=_HAS_CHECKPOINTS,
            size=_CHECKPOINT_BYTES,
        ),
    )


def _preview(session: Session, rule: _Rule, project: str | None) -> RetentionRule:
    view = RetentionRule(rule=rule.name, setting=rule.setting, days=rule.days)
    if rule.days is None:
        return view
    is_old = sa.and_(_is_old(session, rule), belongs_to(col(Job.project), project))
    chosen = [is_old] if rule.name == "checkpoints" else [is_old, *_is_free(session)]
    totals = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(rule.size), 0))
    view.count, total_bytes = session.execute(totals.where(*chosen)).one()
    view.bytes = int(total_bytes)  # sums of PostgreSQL are decimals
    columns = (col(Job.id), col(Job.name), col(Job.finished_at), rule.size)
    oldest = sa.select(*columns).where(*chosen).order_by(col(Job.finished_at), col(Job.id))
    view.oldest = [
        RetentionItem(id=id_, name=name, finished_at=finished_at, bytes=size)
        for id_, name, finished_at, size in session.execute(oldest.limit(MOST_LISTED))
    ]
    all_old = sa.select(sa.func.count()).select_from(Job).where(is_old)
    view.num_kept = session.execute(all_old).scalar_one() - view.count
    return view


def _is_old(session: Session, rule: _Rule) -> sa.ColumnElement[bool]:
    """Return the condition that a job ended long ago and has any of what the rule deletes."""
    before = read_now(session) - timedelta(days=rule.days or 0)
    return sa.and_(col(Job.finished_at) < before, rule.has_any)


def _is_free(session: Session) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that nothing needs a job."""
    return [col(Job.id).not_in(_REGISTERED), col(Job.id).not_in(_list_sources(session))]


def _list_sources(session: Session) -> list[str]:
    """Return the jobs from which jobs that have not ended start."""
    names_job = sa.cast(col(Job.spec), sa.Text).contains("job_", autoescape=True)
    specs = session.exec(select(Job.spec).where(col(Job.finished_at).is_(None), names_job))
    found = {source_job_of(spec) for spec in specs}
    return sorted(source for source in found if source is not None)


def _apply(services: Services, rule: _Rule) -> int:
    if rule.days is None:
        return 0

    def choose(session: Session) -> Sequence[str]:
        chosen = select(Job.id).where(_is_old(session, rule), *_is_free(session))
        return session.exec(chosen.order_by(col(Job.finished_at)).limit(MOST_AT_ONCE)).all()

    num_done = 0
    for job_id in services.database.read(choose):
        try:
            if rule.name == "jobs":
                remove(services, job_id, check=partial(_require_chosen, rule=rule, job_id=job_id))
            else:
                _delete_files(services, rule, job_id)
        except (Conflict, NotFound) as error:
            log.info("retention_skipped", rule=rule.name, job_id=job_id, cause=error.detail)
        else:
            num_done += 1
    return num_done


def _require_chosen(session: Session, rule: _Rule, job_id: str) -> None:
    """Check again that a rule applies to a job, which may have been retried or used meanwhile.

    Raises:
        NotFound: There is no such job any more.
        Conflict: The rule does not apply any more.
    """
    get_job(session, job_id, lock=True)
    again = select(Job.id).where(Job.id == job_id, _is_old(session, rule), *_is_free(session))
    if session.exec(again).first() is None:
        raise Conflict("the job is needed again, or has run again")


def _delete_files(services: Services, rule: _Rule, job_id: str) -> None:
    """Delete the published files of a job that has ended; its record, results and log stay.

    Raises:
        NotFound: There is no such job any more.
        Conflict: It was retried, or is needed by now.
    """

    def run(session: Session) -> None:
        _require_chosen(session, rule, job_id)
        job = get_job(session, job_id)
        files = session.exec(select(Artifact).where(Artifact.job_id == job_id)).all()
        session.exec(delete(Artifact).where(col(Artifact.job_id) == job_id))
        discard(session, [file.sha256 for file in files])
        data = {"files": len(files), "bytes": sum(file.size_bytes for file in files)}
        note_event(session, job, "files_deleted", data, at=read_now(session))

    services.database.write(run)
