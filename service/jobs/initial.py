"""Jobs that start from the weights of another job: `model.pretrained: job:<id>`."""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, select

from redkiln.spec.job_spec import JobSpec
from redkiln.spec.job_weights import JOB_PREFIX
from redkiln.spec.problems import SpecProblem
from redkiln.status import JobStatus
from redkiln.tables import find_other_column
from service.artifacts.models import Artifact
from service.datasets.models import Dataset
from service.jobs.models import Job

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
    """Return the checkpoint that a spec starts from; None if it names none or it is deleted."""
    job_id = source_job_of(spec)
    if job_id is None:
        return None
    statement = select(Artifact).where(Artifact.job_id == job_id, Artifact.name == CHECKPOINT)
    return session.exec(statement).first()


def initial_problems(session: Session, spec: JobSpec, dataset: Dataset | None) -> list[SpecProblem]:
    """Return why a spec cannot start from the named job on this data set."""
    fields = spec.model_dump(mode="json")
    job_id = source_job_of(fields)
    if job_id is None:
        return []
    source = session.get(Job, job_id)
    if source is None:
        message = f"there is no job {job_id!r}; GET /v1/jobs lists the jobs"
        return [SpecProblem(_POINTER, "unknown_job", message)]
    if source.task != spec.task:
        message = f"{job_id} was trained for {source.task}, not for {spec.task}"
        return [SpecProblem(_POINTER, "task_mismatch", message)]
    if source.status != JobStatus.SUCCEEDED:
        message = (
            f"{job_id} is {source.status}; only a job that succeeded has weights to start from"
        )
        return [SpecProblem(_POINTER, "job_not_succeeded", message)]
    if find_initial(session, fields) is None:
        message = f"{job_id} no longer has its {CHECKPOINT}; choose another job"
        return [SpecProblem(_POINTER, "no_checkpoint", message)]
    trained = (source.resolved_spec or source.spec)["model"]
    return [
        *_architecture_problems(fields["model"], trained),
        *_column_problems(session, source, dataset),
    ]


def _architecture_problems(
    wanted: Mapping[str, Any], trained: Mapping[str, Any]
) -> list[SpecProblem]:
    if wanted["source"] == "job":
        return []
    for field in ("source", "name"):
        if wanted[field] not in (trained[field], "auto"):
            message = (
                f"that job trained {trained['name']} ({trained['source']}), not {wanted['name']} "
                f"({wanted['source']}); remove source and name to use its model"
            )
            return [SpecProblem(f"/model/{field}", "other_architecture", message)]
    return []


def _column_problems(session: Session, source: Job, dataset: Dataset | None) -> list[SpecProblem]:
    """Return how the columns of two tables differ.

    The worker checks a table that is still being validated or has no columns. A table that has
    been deleted since still has its report.
    """
    before = session.get(Dataset, source.dataset_id) if source.dataset_id else None
    theirs, mine = _features_of(before), _features_of(dataset)
    if not theirs or not mine:
        return []
    message = find_other_column(theirs, mine, job_id=source.id)
    return [] if message is None else [SpecProblem(_POINTER, "other_columns", message)]


def _features_of(dataset: Dataset | None) -> dict[str, str]:
    """Return the types of the feature columns of a table by name."""
    columns = [] if dataset is None else dataset.report.get("columns", [])
    return {c["name"]: c["type"] for c in columns if c["type"] in ("numeric", "categorical")}
