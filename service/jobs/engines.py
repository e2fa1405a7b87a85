"""Lets a paused job continue with another engine: checkpoints of all engines are alike."""

from typing import Any

from sqlmodel import Session

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from service.bundles.model_files import check_trained_file
from service.errors import Unprocessable
from service.jobs.models import Job
from service.jobs.rules import get_job
from service.keys.caller import Caller
from service.services import Services
from service.workers.needs import set_needs


def check_engine(services: Services, caller: Caller, job_id: str, *, engine: str) -> None:
    """Check that an engine runs the ONNX file that a job trains, if it trains one.

    Reading the file takes a process, so this runs before the job changes.

    Raises:
        NotFound: There is no such job.
        Unprocessable: The file has operators that the engine lacks.
    """

    def load(session: Session) -> dict[str, Any]:
        return _with_engine(get_job(session, job_id).spec, engine)

    check_trained_file(services, caller, services.database.read(load))


def change_engine(job: Job, engine: str) -> None:
    """Change the engine that a job's next attempt uses.

    Raises:
        Unprocessable: The engine cannot train the job.
    """
    try:
        spec = parse_spec(_with_engine(job.spec, engine))
    except SpecError as error:
        raise Unprocessable(str(error), code="invalid_spec", errors=error.problems) from error
    job.spec = spec.model_dump(mode="json")
    if job.resolved_spec is not None:
        job.resolved_spec = _with_engine(job.resolved_spec, engine)
    set_needs(job)


def _with_engine(spec: dict[str, Any], engine: str) -> dict[str, Any]:
    return {**spec, "resources": {**spec.get("resources", {}), "engine": engine}}
