"""Registers versions, moves aliases, and finds what they name."""

import re
from collections.abc import Sequence

from sqlmodel import Session, col, delete, func, select

from redkiln.spec.problems import SpecProblem
from redkiln.status import JobStatus
from redkiln.views.models.registry import ALIAS_PATTERN, NEWEST, NewVersion
from service.artifacts.models import Artifact
from service.artifacts.rules import list_artifacts
from service.audit.record import note_object
from service.database import read_now
from service.datasets.models import Dataset
from service.errors import Conflict, NotFound, Unprocessable
from service.jobs.models import Job
from service.jobs.rules import get_job
from service.projects.owners import belongs_to
from service.registry.models import RegistryAlias, RegistryModel, RegistryVersion


def register_version(session: Session, new: NewVersion) -> RegistryVersion:
    """Register a file of a job as the next version of a model, and move aliases to it.

    Raises:
        NotFound: There is no such job.
        Conflict: The job has not succeeded, or another project has a model of this name.
        Unprocessable: It has no such model file, or an alias has a wrong form.
    """
    for place, alias in enumerate(new.aliases):
        check_alias(alias, pointer=f"/aliases/{place}")
    job = get_job(session, new.job, lock=True)
    if job.status != JobStatus.SUCCEEDED:
        message = f"the job is {job.status}; only files of a job that succeeded can be registered"
        raise Conflict(message, code="job_not_succeeded")
    artifact = _find_file(session, job, new.file)
    version = RegistryVersion(
        name=new.name,
        version=_count_up(session, new.name, project=job.project),
        job_id=job.id,
        artifact_id=artifact.id,
        description=new.description,
        dataset_fingerprint=_find_fingerprint(session, job),
        created_at=read_now(session),
    )
    session.add(version)
    note_object(session, f"{version.name}/{version.version}")
    session.flush()
    for alias in new.aliases:
        move_alias(session, new.name, alias, version=version.version)
    return version


def move_alias(session: Session, name: str, alias: str, *, version: int) -> RegistryVersion:
    """Let an alias name a version, in one step: a reader sees the old version or the new one.

    Raises:
        NotFound: There is no such version.
        Unprocessable: The alias has a wrong form.
    """
    check_alias(alias)
    found = get_version(session, name, version)
    now = read_now(session)
    session.merge(RegistryAlias(name=name, alias=alias, version=version, moved_at=now))
    session.flush()
    return found


def remove_alias(session: Session, name: str, alias: str) -> None:
    """Remove an alias.

    Raises:
        NotFound: There is no such alias.
    """
    session.delete(_get_alias(session, name, alias))


def delete_version(session: Session, name: str, version: int) -> None:
    """Delete a version; the job keeps its files.

    Raises:
        NotFound: There is no such version.
        Conflict: An alias names it.
    """
    found = get_version(session, name, version)
    aliases = [alias for alias, target in list_aliases(session, name).items() if target == version]
    if aliases:
        message = (
            f"version {version} of {name} is {', '.join(aliases)}; move or remove the alias first"
        )
        raise Conflict(message, code="version_has_alias")
    session.delete(found)


def delete_model(session: Session, name: str) -> None:
    """Delete a model with its versions and aliases; the jobs keep their files.

    Its highest number stays, so that a new model of this name does not use a number again.

    Raises:
        NotFound: There is no such model.
    """
    get_model(session, name)
    for table in (RegistryVersion, RegistryAlias):
        session.exec(delete(table).where(col(table.name) == name))


def get_model(session: Session, name: str) -> RegistryModel:
    """Return a model, which exists while it has versions.

    Raises:
        NotFound: There is no such model.
    """
    model = session.get(RegistryModel, name)
    if model is None or not count_versions(session, name):
        raise NotFound(f"there is no model {name!r}; register one: POST /v1/models")
    return model


def get_version(session: Session, name: str, version: int) -> RegistryVersion:
    """Return a version of a model.

    Raises:
        NotFound: There is no such version.
    """
    get_model(session, name)
    found = session.get(RegistryVersion, (name, version))
    if found is None:
        raise NotFound(f"{name} has no version {version}")
    return found


def resolve_alias(session: Session, name: str, alias: str) -> RegistryVersion:
    """Return the version that an alias names; `latest` is the newest one.

    Raises:
        NotFound: There is no such alias.
    """
    if alias != NEWEST:
        return get_version(session, name, _get_alias(session, name, alias).version)
    return list_versions(session, name, limit=1)[0]


def list_versions(session: Session, name: str, *, limit: int = 200) -> Sequence[RegistryVersion]:
    """Return the versions of a model, newest first.

    Raises:
        NotFound: There is no such model.
    """
    get_model(session, name)
    statement = select(RegistryVersion).where(RegistryVersion.name == name)
    return session.exec(statement.order_by(col(RegistryVersion.version).desc()).limit(limit)).all()


def list_models(
    session: Session, *, after: str | None, limit: int, project: str | None = None
) -> Sequence[RegistryModel]:
    """Return models of a project (None: of all) in the order of their names."""
    statement = (
        select(RegistryModel)
        .where(col(RegistryModel.name) > (after or ""))
        .where(belongs_to(col(RegistryModel.project), project))
        .where(col(RegistryModel.name).in_(select(RegistryVersion.name)))
    )
    return session.exec(statement.order_by(col(RegistryModel.name)).limit(limit)).all()


def list_aliases(session: Session, name: str) -> dict[str, int]:
    """Return the version of each alias of a model."""
    statement = select(RegistryAlias).where(RegistryAlias.name == name)
    found = session.exec(statement.order_by(col(RegistryAlias.alias))).all()
    return {row.alias: row.version for row in found}


def check_alias(alias: str, *, pointer: str = "") -> None:
    """Check the form of an alias.

    Raises:
        Unprocessable: It is not allowed.
    """
    if alias == NEWEST or re.fullmatch(r"v\d+", alias) or not re.fullmatch(ALIAS_PATTERN, alias):
        message = (
            f"{alias!r} cannot be an alias; use up to 50 letters, digits, `_` and `-`, the first "
            "a letter, and neither `latest` nor `v1`, which name versions"
        )
        raise Unprocessable(message, errors=[SpecProblem(pointer, "bad_alias", message)])


def _count_up(session: Session, name: str, *, project: str) -> int:
    model = session.get(RegistryModel, name, with_for_update=True)
    if model is None:
        model = RegistryModel(name=name, project=project, created_at=read_now(session))
    elif not count_versions(session, name):  # deleted before
        model.created_at = read_now(session)
        model.project = project
    elif model.project != project:
        message = f"another project has a model {name!r}; choose another name"
        raise Conflict(message, code="name_taken")
    model.last_version += 1
    session.add(model)
    return model.last_version


def _find_file(session: Session, job: Job, name: str) -> Artifact:
    files = [one for one in list_artifacts(session, job.id) if one.kind == "model"]
    for file in files:
        if file.name == name:
            return file
    listed = ", ".join(file.name for file in files) or "no models"
    message = f"the job has no model file {name!r}; it has {listed}"
    raise Unprocessable(message, errors=[SpecProblem("/file", "unknown_file", message)])


def _find_fingerprint(session: Session, job: Job) -> str | None:
    dataset = session.get(Dataset, job.dataset_id) if job.dataset_id else None
    return None if dataset is None else dataset.sha256 or dataset.index_sha256 or dataset.name


def _get_alias(session: Session, name: str, alias: str) -> RegistryAlias:
    get_model(session, name)
    found = session.get(RegistryAlias, (name, alias))
    if found is None:
        known = ", ".join(list_aliases(session, name)) or "none"
        raise NotFound(f"{name} has no alias {alias!r}; its aliases: {known}")
    return found


def count_versions(session: Session, name: str) -> int:
    """Return the number of versions of a model."""
    statement = select(func.count()).where(col(RegistryVersion.name) == name)
    return session.exec(statement).one()
