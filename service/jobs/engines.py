"""Lets a paused job continue with another engine: checkpoints of all engines are alike."""

from typing import Any

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from service.errors import Unprocessable
from service.jobs.models import Job
from service.workers.needs import set_needs


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
