"""Which jobs are kept because a registered version needs them."""

from sqlmodel import Session, col, select

from service.errors import Conflict
from service.registry.models import RegistryVersion


def refuse_if_registered(session: Session, job_id: str) -> None:
    """Check that no version needs a job.

    Raises:
        Conflict: One does; the message names it.
    """
    statement = select(RegistryVersion).where(RegistryVersion.job_id == job_id)
    order = (col(RegistryVersion.name), col(RegistryVersion.version))
    versions = session.exec(statement.order_by(*order)).all()
    if not versions:
        return
    listed = ", ".join(f"version {one.version} of {one.name}" for one in versions[:5])
    more = f" and {len(versions) - 5} others" if len(versions) > 5 else ""
    command = f"redkiln models delete {versions[0].name} {versions[0].version}"
    raise Conflict(
        f"the job is needed by {listed}{more}; delete the version first: {command}",
        code="job_registered",
    )
