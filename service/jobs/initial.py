"""Jobs that start from the weights of another job: `model.pretrained: job:<id>`."""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, select

from redkiln.job import JobStatus
from redkiln.job_weights import JOB_PREFIX
from redkiln.spec import JobSpec
from redkiln.tasks import SpecProblem
from service.artifacts.tables import Artifact
from service.jobs.tables import Job

CHECKPOINT = "checkpoint.safetensors"
"""Name of the artifact with a trained model's weights."""

_POINTER = "/model/pretrained"


def source_job_of(spec: Mapping[str, Any]) -> str | None:
    """Id of the job whose weights a spec starts from; None where it starts from others."""
    model = spec.get("model")
    pretrained = model.get("pretrained") if isinstance(model, Mapping) else None
    if not isinstance(pretrained, str) or not pretrained.startswith(JOB_PREFIX):
        return None
    return pretrained.removeprefix(JOB_PREFIX)


def find_initial(session: Session, spec: Mapping[str, Any]) -> Artifact | None:
    """The checkpoint that a spec starts from; None where it names none, or it is gone."""
    job_id = source_job_of(spec)
    if job_id is None:
        return None
    statement = select(Artifact).where(Artifact.job_id == job_id, Artifact.name == CHECKPOINT)
    return session.exec(statement).first()


def initial_problems(session: Session, spec: JobSpec) -> list[SpecProblem]:
    """Why a spec cannot start from the job that it names."""
    fields = spec.model_dump(mode="json")
    job_id = source_job_of(fields)
    if job_id is None:
        return []
    source = session.get(Job, job_id)
    if source is None:
        message = f"there is no job {job_id!r}; GET /v1/jobs lists what there is"
        return [SpecProblem(_POINTER, "unknown_job", message)]
    if source.task != spec.task:
        message = f"{job_id} trained for {source.task}, not for {spec.task}"
        return [SpecProblem(_POINTER, "task_mismatch", message)]
    if source.status != JobStatus.SUCCEEDED:
        message = f"{job_id} is {source.status}; one that succeeded has weights to start from"
        return [SpecProblem(_POINTER, "job_not_succeeded", message)]
    if find_initial(session, fields) is None:
        message = f"{job_id} has no {CHECKPOINT} any more"
        return [SpecProblem(_POINTER, "no_checkpoint", message)]
    return _architecture_problems(fields["model"], (source.resolved_spec or source.spec)["model"])


def _architecture_problems(
    wanted: Mapping[str, Any], trained: Mapping[str, Any]
) -> list[SpecProblem]:
    if wanted["source"] == "job":
        return []
    for field in ("source", "name"):
        if wanted[field] not in (trained[field], "auto"):
            message = (
                f"that job trained {trained['name']} ({trained['source']}), not {wanted['name']} "
                f"({wanted['source']}); leave source and name away to take its model"
            )
            return [SpecProblem(f"/model/{field}", "other_architecture", message)]
    return []
